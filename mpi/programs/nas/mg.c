// MG: V-cycles of a multigrid method for a Poisson equation in three dimensions with periodic
// boundaries and 20 charges (RNR-94-007, section 2.2.2). Ranks hold boxes; below a certain size of
// the boxes, every rank computes the whole of the coarse levels, after one exchange of the
// residual.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"
#include "mg.h"
#include "nas.h"

enum { CHARGES = 10 }; // of each sign

#define TOLERANCE 1e-8
#define OPERATIONS 58.0 // per point and iteration, as NPB counts

static const double usual[3] = {-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0};
static const double class_b[3] = {-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0};

// The smoother's weights by distance, and NPB's norm of the last residual.
static const struct size {
    int n, iterations;
    const double *smoother;
    double norm;
} sizes[CLASSES] = {
    [CLASS_S] = {32, 4, usual, 0.5307707005734e-4},
    [CLASS_W] = {128, 4, usual, 0.6467329375339e-5},
    [CLASS_A] = {256, 4, usual, 0.2433365309069e-5},
    [CLASS_B] = {256, 20, class_b, 0.1800564401355e-5},
};

// Of all random numbers, the ten largest (or, with their signs changed, the ten smallest).
struct extremes {
    double value[CHARGES];
    double place[CHARGES]; // of a point in the whole grid: x + n (y + n z)
};

static inline void offer(struct extremes *extremes, double value, double place) {
    if (value <= extremes->value[CHARGES - 1]) return;
    int i = CHARGES - 1;
    for (; i > 0 && value > extremes->value[i - 1]; i--) {
        extremes->value[i] = extremes->value[i - 1];
        extremes->place[i] = extremes->place[i - 1];
    }
    extremes->value[i] = value;
    extremes->place[i] = place;
}

static void offer_all(struct extremes *extremes, const struct extremes *more) {
    for (int i = 0; i < CHARGES; i++) offer(extremes, more->value[i], more->place[i]);
}

static void clear(struct extremes extremes[2]) {
    for (int i = 0; i < CHARGES; i++) extremes[0].value[i] = extremes[1].value[i] = -INFINITY;
}

static void scan_row(const struct mg_grid *grid, int n, int z, int y, struct extremes extremes[2]) {
    double numbers[MG_LONGEST];
    const double place =
        ((double)(grid->first[MG_Z] + z) * n + grid->first[MG_Y] + y) * n + grid->first[MG_X];
    uint64_t state = nas_jump(NAS_SEED, NAS_A, (uint64_t)place);
    nas_randoms((size_t)grid->n[MG_X], &state, NAS_A, numbers);
    for (int x = 0; x < grid->n[MG_X]; x++) {
        offer(&extremes[0], numbers[x], place + x);
        offer(&extremes[1], -numbers[x], place + x);
    }
}

static void share(struct extremes extremes[2]) {
    const int ranks = comm_size(), doubles = (int)(2 * sizeof *extremes / sizeof(double));
    struct extremes all[ranks][2];
    int counts[ranks], starts[ranks];
    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] = doubles;
        starts[rank] = rank * doubles;
    }
    memcpy(all[comm_rank()], extremes, sizeof all[0]);
    comm_share(all[0][0].value, counts, starts);
    for (int rank = 0; rank < ranks; rank++)
        if (rank != comm_rank())
            for (int sign = 0; sign < 2; sign++) offer_all(&extremes[sign], &all[rank][sign]);
}

static void put(const struct mg_grid *grid, int n, double place, double charge, double *right) {
    const long index = (long)place;
    const long where[MG_AXES] = {index % n, index / n % n, index / n / n};
    double *point = right;
    for (int axis = 0; axis < MG_AXES; axis++) {
        const long own = where[axis] - grid->first[axis];
        if (own < 0 || own >= grid->n[axis]) return;
        point += (size_t)(own + 1) * grid->step[axis];
    }
    *point = charge;
}

// +1 where the ten largest of n^3 random numbers are, -1 where the ten smallest are, 0 elsewhere.
static void set_charges(const struct mg_hierarchy *hierarchy, const struct mg_grid *grid, int n,
                        double *right) {
    struct extremes extremes[2];
    clear(extremes);
#pragma omp parallel
    {
        struct extremes mine[2];
        clear(mine);
#pragma omp for schedule(static)
        for (int z = 0; z < grid->n[MG_Z]; z++)
            for (int y = 0; y < grid->n[MG_Y]; y++) scan_row(grid, n, z, y, mine);
#pragma omp critical
        for (int sign = 0; sign < 2; sign++) offer_all(&extremes[sign], &mine[sign]);
    }
    share(extremes);
    mg_zero(grid, right);
    for (int i = 0; i < CHARGES; i++) {
        put(grid, n, extremes[0].place[i], 1.0, right);
        put(grid, n, extremes[1].place[i], -1.0, right);
    }
    mg_ghosts(hierarchy, grid, right);
}

// The residual, level by level, down to the coarsest.
static void descend(struct mg_hierarchy *hierarchy) {
    for (int i = hierarchy->levels - 1; i > 0; i--) {
        const struct mg_level *fine = &hierarchy->level[i];
        struct mg_level *coarse = &hierarchy->level[i - 1];
        if (coarse->is_shared) {
            mg_restrict(&fine->grid, fine->residual, &coarse->shared, coarse->part);
            mg_gather(hierarchy, coarse);
        } else {
            mg_restrict(&fine->grid, fine->residual, &coarse->grid, coarse->residual);
            mg_ghosts(hierarchy, &coarse->grid, coarse->residual);
        }
    }
}

static void correct(struct mg_level *coarse, struct mg_level *fine) {
    if (coarse->is_shared) {
        mg_cut(coarse);
        mg_prolong(&coarse->shared, coarse->part, &fine->grid, fine->solution);
    } else {
        mg_prolong(&coarse->grid, coarse->solution, &fine->grid, fine->solution);
    }
}

static void find_residual(const struct mg_hierarchy *hierarchy, struct mg_level *level,
                          const double *right) {
    mg_residual(&level->grid, level->solution, right, level->residual);
    mg_ghosts(hierarchy, &level->grid, level->residual);
}

static void smooth(const struct mg_hierarchy *hierarchy, struct mg_level *level, const double *c) {
    mg_smooth(&level->grid, c, level->residual, level->solution);
    mg_ghosts(hierarchy, &level->grid, level->solution);
}

// One iteration: a V-cycle, and the new residual.
static void iterate(struct mg_hierarchy *hierarchy, const double *c, const double *right) {
    const int finest = hierarchy->levels - 1;
    struct mg_level *level = hierarchy->level;
    descend(hierarchy);
    mg_zero(&level[0].grid, level[0].solution);
    smooth(hierarchy, &level[0], c);
    for (int i = 1; i <= finest; i++) {
        if (i < finest) mg_zero(&level[i].grid, level[i].solution);
        correct(&level[i - 1], &level[i]);
        find_residual(hierarchy, &level[i], i < finest ? level[i].residual : right);
        smooth(hierarchy, &level[i], c);
    }
    find_residual(hierarchy, &level[finest], right);
}

static const char *refuses(enum nas_class class, int ranks) {
    return mg_divides(sizes[class].n, ranks)
               ? NULL
               : "the number of ranks must be a power of 2, and no more than the grid has room for";
}

static void run(enum nas_class class, struct nas_result *result) {
    const struct size *size = &sizes[class];
    struct mg_hierarchy hierarchy;
    mg_hierarchy_set(&hierarchy, size->n);
    struct mg_level *finest = &hierarchy.level[hierarchy.levels - 1];
    double *right = nas_allocate(finest->grid.room, sizeof *right);
    set_charges(&hierarchy, &finest->grid, size->n, right);
    find_residual(&hierarchy, finest, right);
    iterate(&hierarchy, size->smoother, right); // not timed: all memory is touched
    mg_zero(&finest->grid, finest->solution);

    const double begin = nas_begin();
    find_residual(&hierarchy, finest, right);
    for (int i = 0; i < size->iterations; i++) iterate(&hierarchy, size->smoother, right);
    const double norm = mg_norm(&finest->grid, size->n, finest->residual);
    result->seconds = nas_since(begin);
    result->operations = OPERATIONS * size->iterations * pow(size->n, 3);
    result->iterations = size->iterations;
    snprintf(result->size, sizeof result->size, "%dx%dx%d", size->n, size->n, size->n);
    result->verified = nas_agrees(result, "L2 norm", norm, size->norm, TOLERANCE);
}

const struct nas_kernel nas_kernel = {
    .name = "MG", .operation = "floating point", .refuses = refuses, .run = run};
