// MG's four operators and the norm (RNR-94-007, section 2.2.2). Each is a stencil of 27 points,
// whose weights depend on the distance alone; per row, the sums of the four nearest and of the four
// diagonal rows beside it serve three points each.
#include <math.h>
#include <string.h>

#include "comm.h"
#include "mg.h"

enum { ROW = MG_LONGEST + 2 };

// The weights of A, by distance (0, 1, sqrt 2, sqrt 3 steps); that of 1 step is 0.
static const double a0 = -8.0 / 3.0, a2 = 1.0 / 6.0, a3 = 1.0 / 12.0;

// Sums over the rows beside a row: `near` (distance 1) and `far` (distance sqrt 2).
struct beside {
    double near[ROW], far[ROW];
};

static inline size_t at(const struct mg_grid *grid, int z, int y) {
    return (size_t)z * grid->step[MG_Z] + (size_t)y * grid->step[MG_Y];
}

static inline void sum_beside(const struct mg_grid *grid, const double *row,
                              struct beside *restrict sums) {
    const size_t y = grid->step[MG_Y], z = grid->step[MG_Z];
    const double *below = row - z, *above = row + z;
    const size_t points = (size_t)grid->n[MG_X] + 2;
    for (size_t x = 0; x < points; x++) {
        sums->near[x] = (row - y)[x] + row[x + y] + below[x] + above[x];
        sums->far[x] = (below - y)[x] + below[x + y] + (above - y)[x] + above[x + y];
    }
}

void mg_residual(const struct mg_grid *grid, const double *solution, const double *right,
                 double *residual) {
#pragma omp parallel for schedule(static)
    for (int z = 1; z <= grid->n[MG_Z]; z++)
        for (int y = 1; y <= grid->n[MG_Y]; y++) {
            const double *u = solution + at(grid, z, y), *v = right + at(grid, z, y);
            double *r = residual + at(grid, z, y);
            struct beside s;
            sum_beside(grid, u, &s);
#pragma omp simd
            for (int x = 1; x <= grid->n[MG_X]; x++)
                r[x] = v[x] - a0 * u[x] - a2 * (s.far[x] + s.near[x - 1] + s.near[x + 1]) -
                       a3 * (s.far[x - 1] + s.far[x + 1]);
        }
}

void mg_smooth(const struct mg_grid *grid, const double c[3], const double *residual,
               double *solution) {
    const double c0 = c[0], c1 = c[1], c2 = c[2];
#pragma omp parallel for schedule(static)
    for (int z = 1; z <= grid->n[MG_Z]; z++)
        for (int y = 1; y <= grid->n[MG_Y]; y++) {
            const double *r = residual + at(grid, z, y);
            double *u = solution + at(grid, z, y);
            struct beside s;
            sum_beside(grid, r, &s);
#pragma omp simd
            for (int x = 1; x <= grid->n[MG_X]; x++)
                u[x] += c0 * r[x] + c1 * (r[x - 1] + r[x + 1] + s.near[x]) +
                        c2 * (s.far[x] + s.near[x - 1] + s.near[x + 1]);
        }
}

void mg_restrict(const struct mg_grid *fine, const double *from, const struct mg_grid *coarse,
                 double *to) {
#pragma omp parallel for schedule(static)
    for (int z = 1; z <= coarse->n[MG_Z]; z++)
        for (int y = 1; y <= coarse->n[MG_Y]; y++) {
            const double *r = from + at(fine, 2 * z, 2 * y);
            double *s = to + at(coarse, z, y);
            struct beside b;
            sum_beside(fine, r, &b);
            for (int x = 1; x <= coarse->n[MG_X]; x++) {
                const int i = 2 * x;
                s[x] = 0.5 * r[i] + 0.25 * (r[i - 1] + r[i + 1] + b.near[i]) +
                       0.125 * (b.near[i - 1] + b.near[i + 1] + b.far[i]) +
                       0.0625 * (b.far[i - 1] + b.far[i + 1]);
            }
        }
}

// A fine row from a sum of coarse rows, times `weight`.
static inline void spread(int n, double weight, const double *restrict sums, double *restrict row) {
    const double half = 0.5 * weight;
    for (int x = 0; x <= n; x++) {
        row[2 * x] += weight * sums[x];
        row[2 * x + 1] += half * (sums[x] + sums[x + 1]);
    }
}

void mg_prolong(const struct mg_grid *coarse, const double *from, const struct mg_grid *fine,
                double *to) {
    const int n = coarse->n[MG_X];
    const size_t up = coarse->step[MG_Z], right = coarse->step[MG_Y];
#pragma omp parallel for schedule(static)
    for (int z = 0; z <= coarse->n[MG_Z]; z++)
        for (int y = 0; y <= coarse->n[MG_Y]; y++) {
            const double *here = from + at(coarse, z, y);
            double beside[ROW], above[ROW], all[ROW];
            for (size_t x = 0; x < (size_t)n + 2; x++) {
                beside[x] = here[x] + here[x + right];
                above[x] = here[x] + here[x + up];
                all[x] = beside[x] + here[x + up] + here[x + up + right];
            }
            spread(n, 1.0, here, to + at(fine, 2 * z, 2 * y));
            spread(n, 0.5, beside, to + at(fine, 2 * z, 2 * y + 1));
            spread(n, 0.5, above, to + at(fine, 2 * z + 1, 2 * y));
            spread(n, 0.25, all, to + at(fine, 2 * z + 1, 2 * y + 1));
        }
}

void mg_zero(const struct mg_grid *grid, double *field) {
    const size_t plane = grid->step[MG_Z];
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->n[MG_Z] + 2; z++)
        memset(field + (size_t)z * plane, 0, plane * sizeof *field);
}

double mg_norm(const struct mg_grid *grid, int n, const double *field) {
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int z = 1; z <= grid->n[MG_Z]; z++)
        for (int y = 1; y <= grid->n[MG_Y]; y++) {
            const double *row = field + at(grid, z, y);
            double part = 0;
#pragma omp simd reduction(+ : part)
            for (int x = 1; x <= grid->n[MG_X]; x++) part += row[x] * row[x];
            sum += part;
        }
    comm_sum(&sum, 1);
    return sqrt(sum / ((double)n * n * n));
}
