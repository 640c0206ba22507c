// What LU is verified by (RNR-94-007, chapter 3).
#include <math.h>

#include "comm.h"
#include "lu.h"

static void root_of_mean(const struct lu_grid *grid, double sums[LU_PARTS]) {
    double points = 1.0;
    for (int axis = 0; axis < LU_AXES; axis++) points *= grid->whole[axis] - 2;
    comm_sum(sums, LU_PARTS);
    for (int part = 0; part < LU_PARTS; part++) sums[part] = sqrt(sums[part] / points);
}

void lu_residual_norms(const struct lu_problem *problem, double norms[LU_PARTS]) {
    const struct lu_grid *grid = &problem->grid;
    double sums[LU_PARTS] = {0};
#pragma omp parallel for schedule(static) reduction(+ : sums)
    for (int z = grid->from[LU_Z]; z < grid->to[LU_Z]; z++)
        for (int y = grid->from[LU_Y]; y < grid->to[LU_Y]; y++)
            for (size_t part = 0; part < LU_PARTS; part++) {
                const double *row = lu_row(grid, problem->residual, z, y) + part * grid->pitch;
                for (int x = grid->from[LU_X]; x < grid->to[LU_X]; x++)
                    sums[part] += row[x] * row[x];
            }
    for (int part = 0; part < LU_PARTS; part++) norms[part] = sums[part];
    root_of_mean(grid, norms);
}

void lu_error_norms(const struct lu_problem *problem, double norms[LU_PARTS]) {
    const struct lu_grid *grid = &problem->grid;
    for (int part = 0; part < LU_PARTS; part++) norms[part] = 0.0;
    for (int z = grid->from[LU_Z]; z < grid->to[LU_Z]; z++)
        for (int y = grid->from[LU_Y]; y < grid->to[LU_Y]; y++)
            for (int x = grid->from[LU_X]; x < grid->to[LU_X]; x++) {
                const double *point = lu_row(grid, problem->flow, z, y) + x;
                double exact[LU_PARTS];
                lu_exact(grid, grid->first[LU_X] + x, grid->first[LU_Y] + y, z, exact);
                for (size_t part = 0; part < LU_PARTS; part++) {
                    const double error = exact[part] - point[part * grid->pitch];
                    norms[part] += error * error;
                }
            }
    root_of_mean(grid, norms);
}

// The box that is integrated over: its first and last points.
struct bounds {
    int low[LU_AXES], high[LU_AXES];
};

static double pressure(const struct lu_problem *problem, const int own[LU_AXES]) {
    const struct lu_grid *grid = &problem->grid;
    const size_t pitch = grid->pitch;
    const double *u = lu_row(grid, problem->flow, own[LU_Z], own[LU_Y]) + own[LU_X];
    const double square =
        u[pitch] * u[pitch] + u[2 * pitch] * u[2 * pitch] + u[3 * pitch] * u[3 * pitch];
    return LU_C2 * (u[4 * pitch] - 0.5 * square / u[0]);
}

// The sum over one face, of this rank's points: those at its edges count half, at its corners a
// quarter (the mean of each cell's four corners, summed over the cells).
static double face(const struct lu_problem *problem, const struct bounds *bounds, int across,
                   int index) {
    const struct lu_grid *grid = &problem->grid;
    const int first = across == LU_X ? LU_Y : LU_X, second = across == LU_Z ? LU_Y : LU_Z;
    double sum = 0.0;
    int own[LU_AXES];
    own[across] = index - grid->first[across];
    if (own[across] < 0 || own[across] >= grid->n[across]) return 0.0;
    for (int a = bounds->low[first]; a <= bounds->high[first]; a++)
        for (int b = bounds->low[second]; b <= bounds->high[second]; b++) {
            own[first] = a - grid->first[first];
            own[second] = b - grid->first[second];
            if (own[first] < 0 || own[first] >= grid->n[first] || own[second] < 0 ||
                own[second] >= grid->n[second])
                continue;
            const double half_a = a == bounds->low[first] || a == bounds->high[first] ? 0.5 : 1.0;
            const double half_b = b == bounds->low[second] || b == bounds->high[second] ? 0.5 : 1.0;
            sum += half_a * half_b * pressure(problem, own);
        }
    return sum;
}

double lu_surface(const struct lu_problem *problem) {
    const int *whole = problem->grid.whole;
    const struct bounds bounds = {{1, 1, 2}, {whole[LU_X] - 2, whole[LU_Y] - 3, whole[LU_Z] - 2}};
    double integral = 0.0;
    for (int across = 0; across < LU_AXES; across++) {
        double cell = 1.0; // its area
        for (int axis = 0; axis < LU_AXES; axis++)
            if (axis != across) cell /= whole[axis] - 1;
        integral += cell * (face(problem, &bounds, across, bounds.low[across]) +
                            face(problem, &bounds, across, bounds.high[across]));
    }
    comm_sum(&integral, 1);
    return integral;
}
