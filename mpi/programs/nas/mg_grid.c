// How MG's grids are divided among ranks: boxes, each axis halved in turn (z, y, x, z, ...).
#include <string.h>

#include "comm.h"
#include "mg.h"
#include "nas.h"

enum { LEAST = 4 }; // points of a rank's part, along each axis, of a level that is divided

static void divide(int ranks, int parts[MG_AXES]) {
    for (int axis = 0; axis < MG_AXES; axis++) parts[axis] = 1;
    for (int axis = MG_Z; ranks > 1; ranks /= 2, axis = (axis + 2) % MG_AXES) parts[axis] *= 2;
}

bool mg_divides(int n, int ranks) {
    int parts[MG_AXES];
    if (ranks & (ranks - 1)) return false;
    divide(ranks, parts);
    return parts[MG_Z] <= n / LEAST; // no axis has more
}

static void set_steps(struct mg_grid *grid) {
    grid->step[MG_X] = 1;
    grid->step[MG_Y] = (size_t)grid->n[MG_X] + 2;
    grid->step[MG_Z] = grid->step[MG_Y] * ((size_t)grid->n[MG_Y] + 2);
    grid->room = grid->step[MG_Z] * ((size_t)grid->n[MG_Z] + 2);
}

// The rank of the box that is `by` boxes away along an axis, around the edge.
static int neighbour(const int ranks[MG_AXES], const int box[MG_AXES], int axis, int by) {
    int there[MG_AXES];
    memcpy(there, box, sizeof there);
    there[axis] = (box[axis] + by + ranks[axis]) % ranks[axis];
    return (there[MG_Z] * ranks[MG_Y] + there[MG_Y]) * ranks[MG_X] + there[MG_X];
}

static struct mg_grid grid_of(int n, int ranks, int rank) {
    struct mg_grid grid;
    divide(ranks, grid.ranks);
    const int box[MG_AXES] = {
        rank % grid.ranks[MG_X],
        rank / grid.ranks[MG_X] % grid.ranks[MG_Y],
        rank / grid.ranks[MG_X] / grid.ranks[MG_Y],
    };
    for (int axis = 0; axis < MG_AXES; axis++) {
        grid.n[axis] = n / grid.ranks[axis];
        grid.first[axis] = box[axis] * grid.n[axis];
        grid.next[axis] = neighbour(grid.ranks, box, axis, 1);
        grid.previous[axis] = neighbour(grid.ranks, box, axis, -1);
    }
    set_steps(&grid);
    return grid;
}

static bool is_divided(int n, int ranks) {
    int parts[MG_AXES];
    divide(ranks, parts);
    return ranks == 1 || n / parts[MG_Z] >= LEAST;
}

static void level_set(struct mg_level *level, int n) {
    const int ranks = comm_size(), rank = comm_rank();
    const bool divided = is_divided(n, ranks);
    level->grid = divided ? grid_of(n, ranks, rank) : grid_of(n, 1, 0);
    level->solution = nas_allocate(level->grid.room, sizeof(double));
    level->residual = nas_allocate(level->grid.room, sizeof(double));
    mg_zero(&level->grid, level->solution);
    mg_zero(&level->grid, level->residual);
    level->is_shared = !divided && is_divided(2 * n, ranks);
    if (!level->is_shared) return;
    level->shared = grid_of(n, ranks, rank);
    level->part = nas_allocate(level->shared.room, sizeof(double));
}

void mg_hierarchy_set(struct mg_hierarchy *hierarchy, int n) {
    hierarchy->levels = 0;
    hierarchy->blocks = NULL;
    for (int points = 2; points <= n; points *= 2) {
        struct mg_level *level = &hierarchy->level[hierarchy->levels++];
        level_set(level, points);
        if (level->is_shared)
            hierarchy->blocks =
                nas_allocate((size_t)comm_size() * level->shared.room, sizeof(double));
    }
    for (int i = 0; i < 2; i++)
        hierarchy->faces[i] = nas_allocate((size_t)(n + 2) * (size_t)(n + 2), sizeof(double));
}

// A layer of a field, across one axis. Ghosts of the axes before it belong to it.
struct layer {
    int outer, inner;               // the other two axes
    size_t first_outer, last_outer; // indices
    size_t first_inner, last_inner;
};

static struct layer layer_of(const struct mg_grid *grid, int axis) {
    const int outer = axis == MG_Z ? MG_Y : MG_Z, inner = axis == MG_X ? MG_Y : MG_X;
    return (struct layer){
        outer,
        inner,
        outer < axis ? 0 : 1,
        (size_t)grid->n[outer] + (outer < axis),
        inner < axis ? 0 : 1,
        (size_t)grid->n[inner] + (inner < axis),
    };
}

// Ghosts across an axis that is not divided: the field's own other end.
static void wrap(const struct mg_grid *grid, int axis, double *field) {
    const struct layer layer = layer_of(grid, axis);
    const size_t step = grid->step[axis], n = (size_t)grid->n[axis];
#pragma omp parallel for schedule(static)
    for (size_t o = layer.first_outer; o <= layer.last_outer; o++)
        for (size_t i = layer.first_inner; i <= layer.last_inner; i++) {
            double *line = field + o * grid->step[layer.outer] + i * grid->step[layer.inner];
            line[0] = line[n * step];
            line[(n + 1) * step] = line[step];
        }
}

// Layer `index` into a buffer (or out of it), of which the size is returned.
static int copy_layer(const struct mg_grid *grid, int axis, size_t index, bool out, double *field,
                      double *buffer) {
    const struct layer layer = layer_of(grid, axis);
    const size_t inners = layer.last_inner - layer.first_inner + 1;
    double *start = field + index * grid->step[axis];
    for (size_t o = layer.first_outer; o <= layer.last_outer; o++)
        for (size_t i = layer.first_inner; i <= layer.last_inner; i++) {
            double *there = &start[o * grid->step[layer.outer] + i * grid->step[layer.inner]];
            double *here = &buffer[(o - layer.first_outer) * inners + i - layer.first_inner];
            if (out)
                *there = *here;
            else
                *here = *there;
        }
    return (int)((layer.last_outer - layer.first_outer + 1) * inners);
}

static void swap(const struct mg_hierarchy *hierarchy, const struct mg_grid *grid, int axis,
                 double *field) {
    double *send = hierarchy->faces[0], *received = hierarchy->faces[1];
    const size_t n = (size_t)grid->n[axis];
    int size = copy_layer(grid, axis, n, false, field, send);
    comm_sendrecv(send, size, grid->next[axis], received, size, grid->previous[axis]);
    copy_layer(grid, axis, 0, true, field, received);
    size = copy_layer(grid, axis, 1, false, field, send);
    comm_sendrecv(send, size, grid->previous[axis], received, size, grid->next[axis]);
    copy_layer(grid, axis, n + 1, true, field, received);
}

void mg_ghosts(const struct mg_hierarchy *hierarchy, const struct mg_grid *grid, double *field) {
    for (int axis = 0; axis < MG_AXES; axis++)
        if (grid->ranks[axis] == 1)
            wrap(grid, axis, field);
        else
            swap(hierarchy, grid, axis, field);
}

// A rank's box (its own points, or with ghosts) of a whole level, to or from a field of its own.
static void copy_box(const struct mg_grid *whole, double *field, const struct mg_grid *box,
                     int ghosts, bool to_whole, double *own) {
    for (int z = 1 - ghosts; z <= box->n[MG_Z] + ghosts; z++)
        for (int y = 1 - ghosts; y <= box->n[MG_Y] + ghosts; y++)
            for (int x = 1 - ghosts; x <= box->n[MG_X] + ghosts; x++) {
                double *there = field + (size_t)(box->first[MG_Z] + z) * whole->step[MG_Z] +
                                (size_t)(box->first[MG_Y] + y) * whole->step[MG_Y] +
                                (size_t)(box->first[MG_X] + x);
                double *here =
                    own + (size_t)z * box->step[MG_Z] + (size_t)y * box->step[MG_Y] + (size_t)x;
                if (to_whole)
                    *there = *here;
                else
                    *here = *there;
            }
}

void mg_gather(const struct mg_hierarchy *hierarchy, struct mg_level *level) {
    const int ranks = comm_size(), n = level->grid.n[MG_X], part = (int)level->shared.room;
    int sizes[ranks], starts[ranks];
    double *blocks = hierarchy->blocks;
    for (int rank = 0; rank < ranks; rank++) {
        sizes[rank] = part;
        starts[rank] = rank * part;
    }
    memcpy(blocks + starts[comm_rank()], level->part, level->shared.room * sizeof *blocks);
    comm_share(blocks, sizes, starts);
    for (int rank = 0; rank < ranks; rank++) {
        const struct mg_grid box = grid_of(n, ranks, rank);
        copy_box(&level->grid, level->residual, &box, 0, true, blocks + starts[rank]);
    }
    mg_ghosts(hierarchy, &level->grid, level->residual);
}

void mg_cut(struct mg_level *level) {
    copy_box(&level->grid, level->solution, &level->shared, 1, false, level->part);
}
