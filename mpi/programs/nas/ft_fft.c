// Complex FFTs in three dimensions: Stockham's self-sorting transform, radix 4 (and one step of
// radix 2), of FT_LANES lines at a time, so that the innermost loop runs over independent numbers
// (C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, sections 1.7, 2.4).
#include <math.h>
#include <string.h>

#include "comm.h"
#include "ft.h"
#include "nas.h"

enum { HALF = FT_LONGEST * FT_LANES };

// One batch: element k of lane l is at [k * FT_LANES + l], and the other pair is the step's result.
struct batch {
    double re[HALF], im[HALF], other_re[HALF], other_im[HALF];
};

// Where the lines of a batch lie.
struct lines {
    size_t element, lane; // steps from an element to the next, and from a line to the next
};

static void roots_set(struct ft_roots *roots, int n) {
    roots->n = n;
    for (int k = 0; k < n; k++) {
        const double angle = 2.0 * M_PI * k / n;
        roots->root[k] = (struct ft_complex){cos(angle), -sin(angle)};
    }
}

void ft_plan_set(struct ft_plan *plan, const struct ft_grid *grid) {
    roots_set(&plan->x, grid->nx);
    roots_set(&plan->y, grid->ny);
    roots_set(&plan->z, grid->nz);
}

// Butterflies of one root: `width` numbers each at 0, quarter, 2 quarter, 3 quarter of the source
// go to 0, width, 2 width, 3 width of the result.
static inline void radix4(size_t width, size_t quarter, const struct ft_complex w[3],
                          const double *restrict re, const double *restrict im,
                          double *restrict to_re, double *restrict to_im) {
    for (size_t i = 0; i < width; i++) {
        const double a_re = re[i], a_im = im[i];
        const double b_re = re[i + quarter], b_im = im[i + quarter];
        const double c_re = re[i + 2 * quarter], c_im = im[i + 2 * quarter];
        const double d_re = re[i + 3 * quarter], d_im = im[i + 3 * quarter];
        const double s_re = a_re + c_re, s_im = a_im + c_im, m_re = a_re - c_re, m_im = a_im - c_im;
        const double t_re = b_re + d_re, t_im = b_im + d_im;
        const double j_re = d_im - b_im, j_im = b_re - d_re; // i (b - d)
        const double y1_re = m_re - j_re, y1_im = m_im - j_im;
        const double y2_re = s_re - t_re, y2_im = s_im - t_im;
        const double y3_re = m_re + j_re, y3_im = m_im + j_im;
        to_re[i] = s_re + t_re;
        to_im[i] = s_im + t_im;
        to_re[i + width] = w[0].re * y1_re - w[0].im * y1_im;
        to_im[i + width] = w[0].re * y1_im + w[0].im * y1_re;
        to_re[i + 2 * width] = w[1].re * y2_re - w[1].im * y2_im;
        to_im[i + 2 * width] = w[1].re * y2_im + w[1].im * y2_re;
        to_re[i + 3 * width] = w[2].re * y3_re - w[2].im * y3_im;
        to_im[i + 3 * width] = w[2].re * y3_im + w[2].im * y3_re;
    }
}

static inline void radix2(size_t width, const double *restrict from, double *restrict to) {
    for (size_t i = 0; i < width; i++) {
        to[i] = from[i] + from[i + width];
        to[i + width] = from[i] - from[i + width];
    }
}

// All lanes; the result is in `to`, which is one of the two pairs. With re and im exchanged it is
// the backward transform.
static void transform(const struct ft_roots *roots, double *pairs[2][2], double *to[2]) {
    const size_t n = (size_t)roots->n;
    size_t width = FT_LANES, left = n;
    int now = 0;
    for (; left >= 4; left /= 4, width *= 4, now ^= 1) {
        const size_t quarter = left / 4, step = n / left;
        for (size_t p = 0; p < quarter; p++) {
            const struct ft_complex w[3] = {roots->root[p * step], roots->root[2 * p * step],
                                            roots->root[3 * p * step]};
            radix4(width, quarter * width, w, pairs[now][0] + p * width, pairs[now][1] + p * width,
                   pairs[now ^ 1][0] + 4 * p * width, pairs[now ^ 1][1] + 4 * p * width);
        }
    }
    if (left == 2) {
        for (int part = 0; part < 2; part++) radix2(width, pairs[now][part], pairs[now ^ 1][part]);
        now ^= 1;
    }
    to[0] = pairs[now][0];
    to[1] = pairs[now][1];
}

static inline void load(int n, struct lines lines, const struct ft_complex *from,
                        struct batch *batch) {
    for (size_t k = 0; k < (size_t)n; k++)
        for (size_t l = 0; l < FT_LANES; l++) {
            batch->re[k * FT_LANES + l] = from[k * lines.element + l * lines.lane].re;
            batch->im[k * FT_LANES + l] = from[k * lines.element + l * lines.lane].im;
        }
}

static inline void store(int n, struct lines lines, double *const parts[2], struct ft_complex *to) {
    for (size_t k = 0; k < (size_t)n; k++)
        for (size_t l = 0; l < FT_LANES; l++)
            to[k * lines.element + l * lines.lane] =
                (struct ft_complex){parts[0][k * FT_LANES + l], parts[1][k * FT_LANES + l]};
}

// Transforms FT_LANES lines; inlined, so that a step of 1 is known as such.
static inline __attribute__((always_inline)) void lanes(const struct ft_roots *roots, int backward,
                                                        struct lines lines,
                                                        const struct ft_complex *from,
                                                        struct ft_complex *to) {
    struct batch batch;
    double *forth[2][2] = {{batch.re, batch.im}, {batch.other_re, batch.other_im}};
    double *back[2][2] = {{batch.im, batch.re}, {batch.other_im, batch.other_re}};
    double *parts[2];
    load(roots->n, lines, from, &batch);
    transform(roots, backward ? back : forth, parts);
    store(roots->n, lines, (double *const[]){parts[backward], parts[!backward]}, to);
}

// Lines along x, then along y, of this rank's planes (backward: y, then x).
static void transform_planes(const struct ft_plan *plan, const struct ft_grid *grid, int backward,
                             struct ft_complex *space) {
    const struct lines along_x = {1, grid->pitch}, along_y = {grid->pitch, 1};
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->planes; z++) {
        struct ft_complex *plane = space + (size_t)z * grid->space_plane;
        for (int step = 0; step < 2; step++)
            if (step == backward)
                for (size_t y = 0; y < (size_t)grid->ny; y += FT_LANES)
                    lanes(&plan->x, backward, along_x, plane + y * grid->pitch,
                          plane + y * grid->pitch);
            else
                for (size_t x = 0; x < (size_t)grid->nx; x += FT_LANES)
                    lanes(&plan->y, backward, along_y, plane + x, plane + x);
    }
}

static void transform_z(const struct ft_plan *plan, const struct ft_grid *grid, int backward,
                        const struct ft_complex *from, struct ft_complex *to) {
    const struct lines along_z = {grid->waves_plane, 1};
#pragma omp parallel for collapse(2) schedule(static)
    for (int y = 0; y < grid->rows; y++)
        for (int x = 0; x < grid->nx; x += FT_LANES) {
            const size_t at = (size_t)y * grid->pitch + (size_t)x;
            lanes(&plan->z, backward, along_z, from + at, to + at);
        }
}

// A rank's planes, cut into the rows of each rank; or, with `apart` 0, put together again.
static void cut_rows(const struct ft_grid *grid, int apart, struct ft_complex *space,
                     struct ft_complex *cut) {
    const size_t rows = (size_t)grid->rows * grid->pitch;
#pragma omp parallel for collapse(2) schedule(static)
    for (int rank = 0; rank < grid->ny / grid->rows; rank++)
        for (int z = 0; z < grid->planes; z++) {
            struct ft_complex *whole = space + (size_t)z * grid->space_plane + (size_t)rank * rows;
            struct ft_complex *part = cut + (size_t)(rank * grid->planes + z) * grid->waves_plane;
            memcpy(apart ? part : whole, apart ? whole : part, rows * sizeof *part);
        }
}

static void exchange(const struct ft_grid *grid, const struct ft_complex *from,
                     struct ft_complex *to) {
    const size_t count = (size_t)grid->planes * grid->waves_plane * 2;
    comm_alltoall(&from->re, &to->re, (int)count);
}

void ft_forward(const struct ft_plan *plan, const struct ft_grid *grid, struct ft_complex *space,
                struct ft_complex *waves) {
    transform_planes(plan, grid, 0, space);
    if (!plan->exchange) {
        transform_z(plan, grid, 0, space, waves);
        return;
    }
    cut_rows(grid, 1, space, plan->exchange);
    exchange(grid, plan->exchange, waves);
    transform_z(plan, grid, 0, waves, waves);
}

void ft_backward(const struct ft_plan *plan, const struct ft_grid *grid,
                 const struct ft_complex *waves, struct ft_complex *space) {
    transform_z(plan, grid, 1, waves, space);
    if (plan->exchange) {
        exchange(grid, space, plan->exchange);
        cut_rows(grid, 0, space, plan->exchange);
    }
    transform_planes(plan, grid, 1, space);
}
