// LU's known solution, the forcing that makes it steady, and the flow at the beginning (RNR-94-007,
// chapter 3).
#include <string.h>

#include "lu.h"

// Coefficients of 1; x, y, z; and their squares, cubes and fourth powers; for each part.
static const double coefficients[LU_PARTS][13] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

void lu_exact(const struct lu_grid *grid, int x, int y, int z, double exact[LU_PARTS]) {
    const int index[LU_AXES] = {x, y, z};
    for (int part = 0; part < LU_PARTS; part++) {
        const double *c = coefficients[part];
        exact[part] = c[0];
        for (int axis = 0; axis < LU_AXES; axis++) {
            const double at = (double)index[axis] / (grid->whole[axis] - 1);
            exact[part] +=
                at * (c[1 + axis] + at * (c[4 + axis] + at * (c[7 + axis] + at * c[10 + axis])));
        }
    }
}

// Between the six points of the boundaries that lie in line with a point.
static void interpolate(const struct lu_grid *grid, const int index[LU_AXES],
                        double value[LU_PARTS]) {
    double along[LU_AXES][LU_PARTS];
    for (int axis = 0; axis < LU_AXES; axis++) {
        const int last = grid->whole[axis] - 1;
        const double at = (double)index[axis] / last;
        double low[LU_PARTS], high[LU_PARTS];
        int end[LU_AXES];
        memcpy(end, index, sizeof end);
        end[axis] = 0;
        lu_exact(grid, end[LU_X], end[LU_Y], end[LU_Z], low);
        end[axis] = last;
        lu_exact(grid, end[LU_X], end[LU_Y], end[LU_Z], high);
        for (int part = 0; part < LU_PARTS; part++)
            along[axis][part] = (1.0 - at) * low[part] + at * high[part];
    }
    for (int part = 0; part < LU_PARTS; part++) {
        const double x = along[LU_X][part], y = along[LU_Y][part], z = along[LU_Z][part];
        value[part] = x + y + z - x * y - y * z - z * x + x * y * z;
    }
}

static int on_boundary(const struct lu_grid *grid, const int index[LU_AXES]) {
    for (int axis = 0; axis < LU_AXES; axis++)
        if (index[axis] == 0 || index[axis] == grid->whole[axis] - 1) return 1;
    return 0;
}

void lu_begin(struct lu_problem *problem) {
    const struct lu_grid *grid = &problem->grid;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->n[LU_Z]; z++)
        for (int y = 0; y < grid->n[LU_Y]; y++)
            for (int x = 0; x < grid->n[LU_X]; x++) {
                const int index[LU_AXES] = {grid->first[LU_X] + x, grid->first[LU_Y] + y, z};
                double value[LU_PARTS];
                if (on_boundary(grid, index))
                    lu_exact(grid, index[LU_X], index[LU_Y], index[LU_Z], value);
                else
                    interpolate(grid, index, value);
                double *row = lu_row(grid, problem->flow, z, y);
                for (size_t part = 0; part < LU_PARTS; part++)
                    row[part * grid->pitch + (size_t)x] = value[part];
            }
}

void lu_force(struct lu_problem *problem) {
    const struct lu_grid *grid = &problem->grid;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->n[LU_Z]; z++)
        for (int y = -LU_GHOSTS; y < grid->n[LU_Y] + LU_GHOSTS; y++)
            for (int x = -LU_GHOSTS; x < grid->n[LU_X] + LU_GHOSTS; x++) {
                double value[LU_PARTS];
                lu_exact(grid, grid->first[LU_X] + x, grid->first[LU_Y] + y, z, value);
                double *point = lu_row(grid, problem->flow, z, y) + x;
                for (size_t part = 0; part < LU_PARTS; part++)
                    point[part * grid->pitch] = value[part];
            }
    lu_rate(problem, problem->flow, NULL, problem->forcing);
}
