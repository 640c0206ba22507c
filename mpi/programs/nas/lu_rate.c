// The right-hand side of LU's equations: central differences of the fluxes, viscosity and damping
// of second order, and damping of fourth order (RNR-94-007, chapter 3).
//
// Viscosity is the second difference of potentials: of the velocities, 4/3 of the one along the
// axis, and for the energy of the kinetic energy and the heat.
#include <string.h>

#include "lu.h"

enum { FLUXES = LU_PARTS, STRESSES = LU_PARTS - 1, TERMS = FLUXES + STRESSES };

#define FOURTH 0.25 // a quarter of the largest damping of second order

// What differences along an axis are taken of, for one row: the five fluxes, and the four
// potentials of the stresses (density has none).
struct terms {
    double of[TERMS][LU_WIDEST];
};

// The fourth difference's weights, at -2 ... 2 points. Next to a boundary those beyond it are left
// out, and the two points there have the same sum.
struct weights {
    double w[5];
};

static struct weights weights_at(int index, int whole) {
    const int left = index, right = whole - 1 - index; // how far the boundaries are
    struct weights at = {{1.0, -4.0, 6.0, -4.0, 1.0}};
    if (left <= 2) at.w[0] = 0.0;
    if (left == 1) at.w[1] = 0.0;
    if (left == 1 || right == 1) at.w[2] = 5.0;
    if (right == 1) at.w[3] = 0.0;
    if (right <= 2) at.w[4] = 0.0;
    return at;
}

// The terms along an axis of the points from <= i < to of a row.
static inline __attribute__((always_inline)) void terms_of(int axis, size_t pitch,
                                                           const double *row, int from, int to,
                                                           struct terms *restrict terms) {
    const double *u0 = row, *u1 = row + pitch, *u2 = u1 + pitch, *u3 = u2 + pitch, *u4 = u3 + pitch;
    const double kx = axis == LU_X ? 4.0 / 3.0 : 1.0, ky = axis == LU_Y ? 4.0 / 3.0 : 1.0,
                 kz = axis == LU_Z ? 4.0 / 3.0 : 1.0;
    for (int i = from; i < to; i++) {
        const int at = i + LU_GHOSTS;
        const double volume = 1.0 / u0[i]; // of a unit of mass
        const double vx = u1[i] * volume, vy = u2[i] * volume, vz = u3[i] * volume;
        const double square = vx * vx + vy * vy + vz * vz;
        const double pressure = LU_C2 * (u4[i] - 0.5 * u0[i] * square);
        const double v = axis == LU_X ? vx : axis == LU_Y ? vy : vz;
        terms->of[0][at] = axis == LU_X ? u1[i] : axis == LU_Y ? u2[i] : u3[i];
        terms->of[1][at] = u1[i] * v + (axis == LU_X ? pressure : 0.0);
        terms->of[2][at] = u2[i] * v + (axis == LU_Y ? pressure : 0.0);
        terms->of[3][at] = u3[i] * v + (axis == LU_Z ? pressure : 0.0);
        terms->of[4][at] = (u4[i] + pressure) * v;
        terms->of[5][at] = kx * vx;
        terms->of[6][at] = ky * vy;
        terms->of[7][at] = kz * vz;
        terms->of[8][at] =
            0.5 * (1.0 - LU_C1 * LU_C5) * square + v * v / 6.0 + LU_C1 * LU_C5 * u4[i] * volume;
    }
}

// Where the terms before, at and after the points are; `step` leads from a point of the flow to the
// next along the axis.
struct around {
    const double *before, *at, *after;
    ptrdiff_t step;
};

static void add_differences(const struct lu_axis *axis, const struct around *around, size_t pitch,
                            struct weights weights, int from, int to, const double *flow,
                            double *restrict rate) {
    const double *w = weights.w;
    const ptrdiff_t step = around->step;
    const double damping = axis->damping * axis->t1;
    for (size_t part = 0; part < LU_PARTS; part++) {
        const double *u = flow + part * pitch;
        const double *f0 = around->before + part * LU_WIDEST,
                     *f2 = around->after + part * LU_WIDEST;
        double *to_rate = rate + part * pitch;
        for (int i = from; i < to; i++)
            to_rate[i] += damping * (u[i - step] - 2.0 * u[i] + u[i + step]) -
                          axis->t2 * (f2[i] - f0[i]) -
                          FOURTH * (w[0] * u[i - 2 * step] + w[1] * u[i - step] + w[2] * u[i] +
                                    w[3] * u[i + step] + w[4] * u[i + 2 * step]);
    }
    for (size_t part = 1; part < LU_PARTS; part++) {
        const size_t term = (FLUXES + part - 1) * LU_WIDEST;
        const double *s0 = around->before + term, *s1 = around->at + term,
                     *s2 = around->after + term;
        double *to_rate = rate + part * pitch;
        for (int i = from; i < to; i++)
            to_rate[i] += LU_C34 * axis->t1 * (s2[i] - 2.0 * s1[i] + s0[i]);
    }
}

static const double *start(const struct terms *terms) { return &terms->of[0][LU_GHOSTS]; }

static void add_x(const struct lu_problem *problem, const double *flow, double *rate) {
    const struct lu_grid *grid = &problem->grid;
    const int from = grid->from[LU_X], to = grid->to[LU_X], first = grid->first[LU_X];
    const int whole = grid->whole[LU_X];
    struct terms terms;
    terms_of(LU_X, grid->pitch, flow, from - 1, to + 1, &terms);
    const struct around around = {start(&terms) - 1, start(&terms), start(&terms) + 1, 1};
    for (int i = from; i < to;) {
        int end = i + 1; // two points next to a boundary are alone, the others together
        if (first + i > 2) end = to + first < whole - 3 ? to : whole - 3 - first;
        if (end <= i) end = i + 1;
        add_differences(&problem->axis[LU_X], &around, grid->pitch, weights_at(first + i, whole), i,
                        end, flow, rate);
        i = end;
    }
}

// Adds the differences along y or z to a line of rows; three rows of terms are held at a time.
static inline __attribute__((always_inline)) void
add_line(const struct lu_problem *problem, int axis, size_t step, double *flow, double *rate) {
    const struct lu_grid *grid = &problem->grid;
    const int from = grid->from[LU_X], to = grid->to[LU_X];
    struct terms held[3];
    for (int i = grid->from[axis] - 1; i <= grid->to[axis]; i++) {
        terms_of(axis, grid->pitch, flow + i * (ptrdiff_t)step, from, to, &held[(i + 3) % 3]);
        const int middle = i - 1;
        if (middle < grid->from[axis]) continue;
        const struct around around = {start(&held[(middle + 2) % 3]), start(&held[middle % 3]),
                                      start(&held[(middle + 1) % 3]), (ptrdiff_t)step};
        const size_t at = (size_t)middle * step;
        add_differences(&problem->axis[axis], &around, grid->pitch,
                        weights_at(grid->first[axis] + middle, grid->whole[axis]), from, to,
                        flow + at, rate + at);
    }
}

static void set_row(const struct lu_grid *grid, const double *less, double *rate) {
    for (size_t i = 0; i < LU_PARTS * grid->pitch - LU_GHOSTS; i++) rate[i] = less ? -less[i] : 0.0;
}

void lu_rate(const struct lu_problem *problem, double *flow, double *less, double *rate) {
    const struct lu_grid *grid = &problem->grid;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int z = grid->from[LU_Z]; z < grid->to[LU_Z]; z++) {
            for (int y = grid->from[LU_Y]; y < grid->to[LU_Y]; y++) {
                double *row = lu_row(grid, rate, z, y);
                set_row(grid, less ? lu_row(grid, less, z, y) : NULL, row);
                add_x(problem, lu_row(grid, flow, z, y), row);
            }
            add_line(problem, LU_Y, grid->row, lu_row(grid, flow, z, 0), lu_row(grid, rate, z, 0));
        }
#pragma omp for schedule(static)
        for (int y = grid->from[LU_Y]; y < grid->to[LU_Y]; y++)
            add_line(problem, LU_Z, grid->plane, lu_row(grid, flow, 0, y),
                     lu_row(grid, rate, 0, y));
    }
}
