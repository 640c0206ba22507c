// LU's grid and fields, and what is done with them (RNR-94-007, chapter 3).
//
// The five parts of a point are density, three momenta and energy. A field has two layers of ghosts
// on each side; rows (x) of one part are contiguous: field[z][y][part][x].
#ifndef LU_H
#define LU_H

#include <stddef.h>

enum { LU_X, LU_Y, LU_Z, LU_AXES };
enum { LU_PARTS = 5, LU_GHOSTS = 2, LU_WIDEST = 102 + 2 * LU_GHOSTS };

// The gas: c1 ... c5 of the specification, and what is made of them.
#define LU_C1 1.4
#define LU_C2 0.4
#define LU_C3 0.1
#define LU_C4 1.0
#define LU_C5 1.4
#define LU_C34 (LU_C3 * LU_C4)
#define LU_C1345 (LU_C1 * LU_C3 * LU_C4 * LU_C5)

struct lu_grid {
    int whole[LU_AXES];                  // points, with the boundaries
    int first[LU_AXES], n[LU_AXES];      // of which this rank owns n from `first`
    int from[LU_AXES], to[LU_AXES];      // own points that are not on a boundary: from <= i < to
    int before[LU_AXES], after[LU_AXES]; // neighbours' ranks; COMM_NOBODY at a boundary
    size_t pitch, row, plane, room;      // to the next part, y, z; elements of a field
};

// Along an axis, with h the distance of two points.
struct lu_axis {
    double t1, t2;  // 1 / h^2, 1 / (2 h)
    double damping; // d1 ... d5, which are the same
};

struct lu_problem {
    struct lu_grid grid;
    struct lu_axis axis[LU_AXES];
    double dt;
    double *flow, *forcing, *residual;
    double *messages[2]; // to send, received
};

// A row's first own point of the first part; its ghosts are before it.
static inline double *lu_row(const struct lu_grid *grid, double *field, int z, int y) {
    return field + (size_t)(z + LU_GHOSTS) * grid->plane + (size_t)(y + LU_GHOSTS) * grid->row +
           LU_GHOSTS;
}

// Why n^3 points cannot be divided among the ranks, or NULL.
const char *lu_refuses(int n, int ranks);
void lu_problem_set(struct lu_problem *problem, int n, double dt);

// The solution that the forcing is made for, at a point of the whole grid.
void lu_exact(const struct lu_grid *grid, int x, int y, int z, double exact[LU_PARTS]);
// The flow at the beginning: exact on the boundaries, interpolated between them elsewhere.
void lu_begin(struct lu_problem *problem);
// Sets the forcing, by which the exact solution is steady.
void lu_force(struct lu_problem *problem);

// Ghosts of the flow, from the neighbours.
void lu_ghosts(struct lu_problem *problem);
// A plane of the residual, as it comes through a sweep: towards larger indices (up 1) or smaller.
void lu_receive_plane(struct lu_problem *problem, int up, int z);
void lu_send_plane(struct lu_problem *problem, int up, int z);

// The rate of change of the flow: in `rate`, less what is in `less`, or all of it (NULL).
void lu_rate(const struct lu_problem *problem, double *flow, double *less, double *rate);
// Both triangular solutions of an iteration, in place of the residual.
void lu_sweeps(struct lu_problem *problem, double omega);

// Over all ranks: root mean squares of the residual and of the error of the flow, and the integral
// of the pressure over six faces.
void lu_residual_norms(const struct lu_problem *problem, double norms[LU_PARTS]);
void lu_error_norms(const struct lu_problem *problem, double norms[LU_PARTS]);
double lu_surface(const struct lu_problem *problem);

#endif
