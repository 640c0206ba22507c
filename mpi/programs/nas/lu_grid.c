// How LU's grid is divided among ranks, in columns along z, and what they tell each other.
#include <stdbool.h>
#include <string.h>

#include "comm.h"
#include "lu.h"
#include "nas.h"

enum { LEAST = 3 }; // points of a rank along an axis: the neighbours' ghosts are among them

// The ranks along y; those along x are at least as many.
static int ranks_along_y(int ranks) {
    int along = 1;
    for (int i = 2; i * i <= ranks; i++)
        if (ranks % i == 0) along = i;
    return along;
}

const char *lu_refuses(int n, int ranks) {
    return n / (ranks / ranks_along_y(ranks)) < LEAST ? "too few points for each rank" : NULL;
}

static void divide(struct lu_grid *grid, int axis, int parts, int part, int stride) {
    const int n = grid->whole[axis], rank = comm_rank();
    grid->first[axis] = n * part / parts;
    grid->n[axis] = n * (part + 1) / parts - grid->first[axis];
    grid->from[axis] = part == 0 ? 1 : 0;
    grid->to[axis] = part == parts - 1 ? grid->n[axis] - 1 : grid->n[axis];
    grid->before[axis] = part == 0 ? COMM_NOBODY : rank - stride;
    grid->after[axis] = part == parts - 1 ? COMM_NOBODY : rank + stride;
}

static void grid_set(struct lu_grid *grid, int n) {
    const int along_y = ranks_along_y(comm_size()), along_x = comm_size() / along_y;
    for (int axis = 0; axis < LU_AXES; axis++) grid->whole[axis] = n;
    divide(grid, LU_X, along_x, comm_rank() % along_x, 1);
    divide(grid, LU_Y, along_y, comm_rank() / along_x, along_x);
    divide(grid, LU_Z, 1, 0, 0);
    grid->pitch = ((size_t)grid->n[LU_X] + 2 * LU_GHOSTS + 1) / 2 * 2;
    grid->row = LU_PARTS * grid->pitch;
    grid->plane = grid->row * ((size_t)grid->n[LU_Y] + 2 * LU_GHOSTS);
    grid->room = grid->plane * ((size_t)grid->n[LU_Z] + 2 * LU_GHOSTS);
}

// A field of zeros; each thread touches the planes that it will work on.
static double *field(const struct lu_grid *grid) {
    double *values = nas_allocate(grid->room, sizeof *values);
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid->n[LU_Z] + 2 * LU_GHOSTS; z++)
        memset(values + (size_t)z * grid->plane, 0, grid->plane * sizeof *values);
    return values;
}

void lu_problem_set(struct lu_problem *problem, int n, double dt) {
    const double damping[LU_AXES] = {0.75, 0.75, 1.0};
    grid_set(&problem->grid, n);
    const struct lu_grid *grid = &problem->grid;
    for (int axis = 0; axis < LU_AXES; axis++) {
        const double steps = grid->whole[axis] - 1;
        problem->axis[axis] = (struct lu_axis){steps * steps, steps / 2, damping[axis]};
    }
    problem->dt = dt;
    problem->flow = field(grid);
    problem->forcing = field(grid);
    problem->residual = field(grid);
    for (int i = 0; i < 2; i++)
        problem->messages[i] =
            nas_allocate((size_t)LU_GHOSTS * LU_PARTS * (size_t)n * (size_t)n, sizeof(double));
}

// A box of own points and ghosts, all parts.
struct box {
    int x, y, z;    // the first point
    int nx, ny, nz; // how many
};

// Copies a box to a message or from it; returns its size.
static int copy(const struct lu_grid *grid, double *field, struct box box, bool from_message,
                double *message) {
    double *here = message;
    for (int z = box.z; z < box.z + box.nz; z++)
        for (int y = box.y; y < box.y + box.ny; y++)
            for (size_t part = 0; part < LU_PARTS; part++) {
                double *there = lu_row(grid, field, z, y) + part * grid->pitch + box.x;
                const size_t bytes = sizeof *here * (size_t)box.nx;
                memcpy(from_message ? there : here, from_message ? here : there, bytes);
                here += box.nx;
            }
    return (int)(here - message);
}

// The layers at own index `at` along an axis, of all points of the others.
static struct box layers(const struct lu_grid *grid, int axis, int at, int count) {
    struct box box = {0, 0, 0, grid->n[LU_X], grid->n[LU_Y], grid->n[LU_Z]};
    if (axis == LU_X) {
        box.x = at;
        box.nx = count;
    } else {
        box.y = at;
        box.ny = count;
    }
    return box;
}

static void shift(struct lu_problem *problem, int axis, int to, int from, int own, int ghosts) {
    const struct lu_grid *grid = &problem->grid;
    double *send = problem->messages[0], *received = problem->messages[1];
    const int size = copy(grid, problem->flow, layers(grid, axis, own, LU_GHOSTS), false, send);
    comm_sendrecv(send, size, to, received, size, from);
    if (from != COMM_NOBODY)
        copy(grid, problem->flow, layers(grid, axis, ghosts, LU_GHOSTS), true, received);
}

void lu_ghosts(struct lu_problem *problem) {
    const struct lu_grid *grid = &problem->grid;
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        const int n = grid->n[axis], before = grid->before[axis], after = grid->after[axis];
        if (before == COMM_NOBODY && after == COMM_NOBODY) continue;
        shift(problem, axis, after, before, n - LU_GHOSTS, -LU_GHOSTS);
        shift(problem, axis, before, after, 0, n);
    }
}

// One layer of one plane.
static struct box line(const struct lu_grid *grid, int axis, int at, int z) {
    struct box box = layers(grid, axis, at, 1);
    box.z = z;
    box.nz = 1;
    return box;
}

void lu_receive_plane(struct lu_problem *problem, int up, int z) {
    const struct lu_grid *grid = &problem->grid;
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        const int from = up ? grid->before[axis] : grid->after[axis];
        if (from == COMM_NOBODY) continue;
        const struct box ghosts = line(grid, axis, up ? -1 : grid->n[axis], z);
        comm_receive(problem->messages[1], LU_PARTS * ghosts.nx * ghosts.ny, from);
        copy(grid, problem->residual, ghosts, true, problem->messages[1]);
    }
}

void lu_send_plane(struct lu_problem *problem, int up, int z) {
    const struct lu_grid *grid = &problem->grid;
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        const int to = up ? grid->after[axis] : grid->before[axis];
        if (to == COMM_NOBODY) continue;
        const struct box own = line(grid, axis, up ? grid->n[axis] - 1 : 0, z);
        const int size = copy(grid, problem->residual, own, false, problem->messages[0]);
        comm_send(problem->messages[0], size, to);
    }
}
