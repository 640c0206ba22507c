// FT: a diffusion equation in three dimensions, solved by Fourier transforms (RNR-94-007, section
// 2.2.4). The timed part is NPB's: exponents, initial state, roots, one transform forward, and per
// iteration a step in time, a transform back and a checksum. Ranks hold whole planes in space and
// whole rows in frequency: per transform, one exchange of everything between all.
#include <math.h>
#include <stdio.h>

#include "comm.h"
#include "ft.h"
#include "nas.h"

enum { MOST_ITERATIONS = 20, CHECKED = 1024 };

#define ALPHA 1e-6
#define TOLERANCE 1e-12

// Checksums: NPB's (the report has A and B, to fewer digits).
static const struct size {
    int nx, ny, nz, iterations;
    struct ft_complex checksum[MOST_ITERATIONS];
} sizes[CLASSES] = {
    // clang-format off
    [CLASS_S] = {64, 64, 64, 6,
                 {{554.6087004964, 484.5363331978},
                  {554.6385409189, 486.5304269511},
                  {554.6148406171, 488.3910722336},
                  {554.5423607415, 490.1273169046},
                  {554.4255039624, 491.7475857993},
                  {554.2683411902, 493.2597244941}}},
    [CLASS_W] = {128, 128, 32, 6,
                 {{567.3612178944, 529.3246849175},
                  {563.1436885271, 528.2149986629},
                  {559.4024089970, 527.0996558037},
                  {556.0698047020, 526.0027904925},
                  {553.0898991250, 524.9400845633},
                  {550.4159734538, 523.9212247086}}},
    [CLASS_A] = {256, 256, 128, 6,
                 {{504.6735008193, 511.4047905510},
                  {505.9412319734, 509.8809666433},
                  {506.9376896287, 509.8144042213},
                  {507.7892868474, 510.1336130759},
                  {508.5233095391, 510.4914655194},
                  {509.1487099959, 510.7917842803}}},
    [CLASS_B] = {512, 256, 256, 20,
                 {{517.7643571579, 507.7803458597}, {515.4521291263, 508.8249431599},
                  {514.6409228649, 509.6208912659}, {514.2378756213, 510.1023387619},
                  {513.9626667737, 510.3976610617}, {513.7423460082, 510.5948019802},
                  {513.5547056878, 510.7404165783}, {513.3910925466, 510.8576573661},
                  {513.2470705390, 510.9577278523}, {513.1197729984, 511.0460304483},
                  {513.0070319283, 511.1252433800}, {512.9070537032, 511.1968077718},
                  {512.8182883502, 511.2616233064}, {512.7393733383, 511.3203605551},
                  {512.6691062020, 511.3735928093}, {512.6064276004, 511.4218460548},
                  {512.5504076570, 511.4656139760}, {512.5002331720, 511.5053595966},
                  {512.4551951846, 511.5415130407}, {512.4146770029, 511.5744692211}}},
    // clang-format on
};

struct state {
    struct ft_grid grid;
    struct ft_plan plan;
    struct ft_complex *waves, *space;
    double *decay; // of each wave in one time step
};

static struct ft_grid grid_of(const struct size *size) {
    const int ranks = comm_size();
    struct ft_grid grid = {.nx = size->nx, .ny = size->ny, .nz = size->nz};
    grid.planes = size->nz / ranks;
    grid.rows = size->ny / ranks;
    grid.pitch = (size_t)size->nx + FT_PAD;
    grid.space_plane = (size_t)grid.ny * grid.pitch + FT_PAD;
    grid.waves_plane = (size_t)grid.rows * grid.pitch + FT_PAD;
    const size_t space = (size_t)grid.planes * grid.space_plane;
    const size_t waves = (size_t)grid.nz * grid.waves_plane;
    grid.room = space > waves ? space : waves;
    return grid;
}

static void state_set(struct state *state, const struct size *size) {
    state->grid = grid_of(size);
    const size_t room = state->grid.room;
    state->waves = nas_allocate(room, sizeof *state->waves);
    state->space = nas_allocate(room, sizeof *state->space);
    state->decay = nas_allocate(room, sizeof *state->decay);
    state->plan.exchange =
        comm_size() > 1 ? nas_allocate(room, sizeof *state->plan.exchange) : NULL;
}

// The wave number of index k, squared: indices from n / 2 up stand for negative ones.
static double wave_squared(int k, int n) {
    const int wave = k < n / 2 ? k : k - n;
    return (double)(wave * wave);
}

static void set_decay(struct state *state) {
    const struct ft_grid *grid = &state->grid;
    const int first = comm_rank() * grid->rows;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->nz; z++)
        for (int y = 0; y < grid->rows; y++) {
            double *row = state->decay + (size_t)z * grid->waves_plane + (size_t)y * grid->pitch;
            const double zy = wave_squared(z, grid->nz) + wave_squared(first + y, grid->ny);
            for (int x = 0; x < grid->nx; x++)
                row[x] = exp(-4.0 * ALPHA * M_PI * M_PI * (zy + wave_squared(x, grid->nx)));
        }
}

static void set_space(struct state *state) {
    const struct ft_grid *grid = &state->grid;
    const uint64_t numbers = 2 * (uint64_t)grid->nx * (uint64_t)grid->ny;
    const int first = comm_rank() * grid->planes;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->planes; z++) {
        uint64_t x = nas_jump(NAS_SEED, NAS_A, numbers * (uint64_t)(first + z));
        struct ft_complex *plane = state->space + (size_t)z * grid->space_plane;
        for (int y = 0; y < grid->ny; y++)
            nas_randoms(2 * (size_t)grid->nx, &x, NAS_A, &plane[(size_t)y * grid->pitch].re);
    }
}

static void evolve(struct state *state) {
    const struct ft_grid *grid = &state->grid;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->nz; z++)
        for (int y = 0; y < grid->rows; y++) {
            const size_t at = (size_t)z * grid->waves_plane + (size_t)y * grid->pitch;
            for (size_t i = at; i < at + (size_t)grid->nx; i++) {
                state->waves[i].re *= state->decay[i];
                state->waves[i].im *= state->decay[i];
            }
        }
}

// The mean of 1024 numbers, spread over space as the specification says.
static struct ft_complex checksum(const struct state *state) {
    const struct ft_grid *grid = &state->grid;
    const int first = comm_rank() * grid->planes;
    double sum[2] = {0, 0};
    for (int j = 1; j <= CHECKED; j++) {
        const int x = j % grid->nx, y = 3 * j % grid->ny, z = 5 * j % grid->nz - first;
        if (z < 0 || z >= grid->planes) continue;
        const size_t at = (size_t)z * grid->space_plane + (size_t)y * grid->pitch + (size_t)x;
        sum[0] += state->space[at].re;
        sum[1] += state->space[at].im;
    }
    comm_sum(sum, 2);
    const double points = (double)grid->nx * grid->ny * grid->nz;
    return (struct ft_complex){sum[0] / points, sum[1] / points};
}

static void begin(struct state *state) {
    set_decay(state);
    set_space(state);
    ft_plan_set(&state->plan, &state->grid);
    ft_forward(&state->plan, &state->grid, state->space, state->waves);
}

static bool agrees(struct nas_result *result, int iteration, struct ft_complex checksum,
                   struct ft_complex reference) {
    const double error = hypot(checksum.re - reference.re, checksum.im - reference.im) /
                         hypot(reference.re, reference.im);
    nas_detail(result, " %2d %14.10f %14.10f %7.1e\n", iteration, checksum.re, checksum.im, error);
    return error <= TOLERANCE;
}

static const char *refuses(enum nas_class class, int ranks) {
    const struct size *size = &sizes[class];
    return size->nz % ranks || size->ny % ranks ? "the number of ranks must divide the planes"
                                                : NULL;
}

static void run(enum nas_class class, struct nas_result *result) {
    const struct size *size = &sizes[class];
    struct state state;
    struct ft_complex sums[MOST_ITERATIONS];
    state_set(&state, size);
    begin(&state); // not timed: all memory is touched, and pages are where their thread is
    const double start = nas_begin();
    begin(&state);
    for (int i = 0; i < size->iterations; i++) {
        evolve(&state);
        ft_backward(&state.plan, &state.grid, state.waves, state.space);
        sums[i] = checksum(&state);
    }
    result->seconds = nas_since(start);
    const double points = (double)size->nx * size->ny * size->nz, level = log(points);
    result->operations =
        points * (14.8157 + 7.19641 * level + (5.23518 + 7.21113 * level) * size->iterations);
    result->iterations = size->iterations;
    snprintf(result->size, sizeof result->size, "%dx%dx%d", size->nx, size->ny, size->nz);
    nas_detail(result, " checksums, and how far they are from the reference:\n");
    result->verified = true;
    for (int i = 0; i < size->iterations; i++)
        result->verified &= agrees(result, i + 1, sums[i], size->checksum[i]);
}

const struct nas_kernel nas_kernel = {
    .name = "FT", .operation = "floating point", .refuses = refuses, .run = run};
