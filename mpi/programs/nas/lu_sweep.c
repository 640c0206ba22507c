// LU's triangular systems (RNR-94-007, chapter 3: symmetric successive over-relaxation): a sweep
// towards larger indices solves (D + omega L), one towards smaller (I + omega D^-1 U). D, L and U
// are made of blocks of 5 x 5. A block is the Jacobian of the fluxes and stresses at a point, so it
// is not stored: the product with a vector is taken from the flow at that point. That leaves out
// the zeros that a stored block has, and D is lower triangular: fewer operations are done than NPB
// counts, and the messages, which are the same, weigh more.
//
// Along y and z the products of a row come from rows that are done, and are taken together; along x
// each point waits for the one before it. Threads divide the rows, and work on successive planes.
#include <omp.h>

#include "lu.h"

// Parts of a point, or of a product.
struct five {
    double mass, x, y, z, energy;
};

// The flow at a point.
struct state {
    double volume, x, y, z, energy; // of a unit of mass: the momenta are velocities
};

// A product's weights along an axis: of the fluxes' Jacobian, of the stresses', and of the damping.
struct weight {
    double flux, stress, damping;
};

struct sweep {
    struct weight weight[LU_AXES]; // with omega and the time step
    // The diagonal block: 1 and the damping; the stresses by velocity, their work; and the heat.
    double diagonal, stress[LU_AXES], work[LU_AXES], heat;
    int up;
};

static inline struct state state_at(const double *row, size_t pitch, int i) {
    const double volume = 1.0 / row[i];
    return (struct state){volume, row[pitch + (size_t)i] * volume,
                          row[2 * pitch + (size_t)i] * volume, row[3 * pitch + (size_t)i] * volume,
                          row[4 * pitch + (size_t)i] * volume};
}

static inline struct five five_at(const double *row, size_t pitch, int i) {
    return (struct five){row[i], row[pitch + (size_t)i], row[2 * pitch + (size_t)i],
                         row[3 * pitch + (size_t)i], row[4 * pitch + (size_t)i]};
}

// The Jacobian's product with `by` along an axis.
static inline __attribute__((always_inline)) struct five product(int axis, struct weight weight,
                                                                 struct state at, struct five by) {
    const double kx = axis == LU_X ? 4.0 / 3.0 : 1.0, ky = axis == LU_Y ? 4.0 / 3.0 : 1.0,
                 kz = axis == LU_Z ? 4.0 / 3.0 : 1.0;
    const double v = axis == LU_X ? at.x : axis == LU_Y ? at.y : at.z;
    const double flow = axis == LU_X ? by.x : axis == LU_Y ? by.y : by.z;
    // Changes of the velocities, times the density, and of what flows through.
    const double dx = by.x - at.x * by.mass, dy = by.y - at.y * by.mass, dz = by.z - at.z * by.mass;
    const double through = flow - v * by.mass;
    const double half = 0.5 * (at.x * at.x + at.y * at.y + at.z * at.z);
    const double pressure =
        LU_C2 * (half * by.mass - (at.x * by.x + at.y * by.y + at.z * by.z) + by.energy);
    const double enthalpy = at.energy + LU_C2 * (at.energy - half);
    const double stress = weight.stress * LU_C34 * at.volume;
    const double work =
        (kx * LU_C34 - LU_C1345) * at.x * dx + (ky * LU_C34 - LU_C1345) * at.y * dy +
        (kz * LU_C34 - LU_C1345) * at.z * dz + LU_C1345 * (by.energy - at.energy * by.mass);
    return (struct five){
        weight.flux * flow + weight.damping * by.mass,
        weight.flux * (v * by.x + at.x * through + (axis == LU_X ? pressure : 0.0)) +
            stress * kx * dx + weight.damping * by.x,
        weight.flux * (v * by.y + at.y * through + (axis == LU_Y ? pressure : 0.0)) +
            stress * ky * dy + weight.damping * by.y,
        weight.flux * (v * by.z + at.z * through + (axis == LU_Z ? pressure : 0.0)) +
            stress * kz * dz + weight.damping * by.z,
        weight.flux * (v * (by.energy + pressure) + enthalpy * through) +
            weight.stress * at.volume * work + weight.damping * by.energy,
    };
}

static inline struct five sum(struct five a, struct five b) {
    return (struct five){a.mass + b.mass, a.x + b.x, a.y + b.y, a.z + b.z, a.energy + b.energy};
}

// Parts of a row, as the sweep along x needs them.
struct row {
    double across[LU_PARTS][LU_WIDEST]; // of the right-hand side: all but what is along x
    double state[LU_PARTS][LU_WIDEST];
    double inverse[LU_PARTS][LU_WIDEST]; // of the diagonal block's diagonal
};

// What rows beside a row contribute: `y` and `z` are steps to them.
static void know(const struct sweep *sweep, const struct lu_grid *grid, ptrdiff_t y, ptrdiff_t z,
                 const double *flow, const double *residual, struct row *restrict row) {
    const size_t pitch = grid->pitch;
    const struct weight along_y = sweep->weight[LU_Y], along_z = sweep->weight[LU_Z];
    for (int i = grid->from[LU_X]; i < grid->to[LU_X]; i++) {
        const struct five all = sum(
            product(LU_Y, along_y, state_at(flow + y, pitch, i), five_at(residual + y, pitch, i)),
            product(LU_Z, along_z, state_at(flow + z, pitch, i), five_at(residual + z, pitch, i)));
        const int at = i + LU_GHOSTS;
        row->across[0][at] = all.mass;
        row->across[1][at] = all.x;
        row->across[2][at] = all.y;
        row->across[3][at] = all.z;
        row->across[4][at] = all.energy;
    }
}

static void prepare(const struct sweep *sweep, const struct lu_grid *grid, const double *flow,
                    struct row *restrict row) {
    const double base = sweep->diagonal;
    for (int i = grid->from[LU_X] - 1; i <= grid->to[LU_X]; i++) {
        const struct state here = state_at(flow, grid->pitch, i);
        const int at = i + LU_GHOSTS;
        row->state[0][at] = here.volume;
        row->state[1][at] = here.x;
        row->state[2][at] = here.y;
        row->state[3][at] = here.z;
        row->state[4][at] = here.energy;
        row->inverse[1][at] = 1.0 / (base + sweep->stress[LU_X] * here.volume);
        row->inverse[2][at] = 1.0 / (base + sweep->stress[LU_Y] * here.volume);
        row->inverse[3][at] = 1.0 / (base + sweep->stress[LU_Z] * here.volume);
        row->inverse[4][at] = 1.0 / (base + sweep->heat * here.volume);
    }
}

static inline struct state held_state(const struct row *row, int at) {
    return (struct state){row->state[0][at], row->state[1][at], row->state[2][at],
                          row->state[3][at], row->state[4][at]};
}

// The solution of the diagonal block's system, which is lower triangular.
static inline struct five solve(const struct sweep *sweep, double mass_inverse,
                                const struct row *row, int at, struct five right) {
    const struct state here = held_state(row, at);
    struct five s;
    s.mass = right.mass * mass_inverse;
    const double moved = s.mass * here.volume;
    s.x = (right.x + sweep->stress[LU_X] * here.x * moved) * row->inverse[1][at];
    s.y = (right.y + sweep->stress[LU_Y] * here.y * moved) * row->inverse[2][at];
    s.z = (right.z + sweep->stress[LU_Z] * here.z * moved) * row->inverse[3][at];
    const double work = sweep->work[LU_X] * here.x * (s.x - here.x * s.mass) +
                        sweep->work[LU_Y] * here.y * (s.y - here.y * s.mass) +
                        sweep->work[LU_Z] * here.z * (s.z - here.z * s.mass);
    s.energy = (right.energy - here.volume * work + sweep->heat * here.energy * moved) *
               row->inverse[4][at];
    return s;
}

static void solve_row(const struct sweep *sweep, const struct lu_grid *grid, const struct row *row,
                      double *residual) {
    const int up = sweep->up, step = up ? 1 : -1, points = grid->to[LU_X] - grid->from[LU_X];
    const struct weight along_x = sweep->weight[LU_X];
    const size_t pitch = grid->pitch;
    const double mass_inverse = 1.0 / sweep->diagonal;
    int i = up ? grid->from[LU_X] : grid->to[LU_X] - 1;
    struct five last = five_at(residual, pitch, i - step);
    for (int count = 0; count < points; count++, i += step) {
        const int at = i + LU_GHOSTS;
        struct five right = product(LU_X, along_x, held_state(row, at - step), last);
        right = sum(right, (struct five){row->across[0][at], row->across[1][at], row->across[2][at],
                                         row->across[3][at], row->across[4][at]});
        const struct five old = five_at(residual, pitch, i);
        last = up ? solve(sweep, mass_inverse, row, at, sum(right, old))
                  : sum(solve(sweep, mass_inverse, row, at, right), old);
        double *point = residual + i;
        point[0] = last.mass;
        point[pitch] = last.x;
        point[2 * pitch] = last.y;
        point[3 * pitch] = last.z;
        point[4 * pitch] = last.energy;
    }
}

// Rows from <= y < to of a plane, in the sweep's order.
static void sweep_rows(const struct sweep *sweep, struct lu_problem *problem, int z, int from,
                       int to) {
    const struct lu_grid *grid = &problem->grid;
    const ptrdiff_t back = sweep->up ? -1 : 1;
    for (int count = 0; count < to - from; count++) {
        const int y = sweep->up ? from + count : to - 1 - count;
        const double *flow = lu_row(grid, problem->flow, z, y);
        double *residual = lu_row(grid, problem->residual, z, y);
        struct row row;
        know(sweep, grid, back * (ptrdiff_t)grid->row, back * (ptrdiff_t)grid->plane, flow,
             residual, &row);
        prepare(sweep, grid, flow, &row);
        solve_row(sweep, grid, &row, residual);
    }
}

// All planes. At a wave, the thread that is n-th in the sweep's order works on its rows of the
// plane that the thread before it has done at the wave before. The master is the first: it needs
// what is received at once.
static void run(const struct sweep *sweep, struct lu_problem *problem) {
    const struct lu_grid *grid = &problem->grid;
    const int planes = grid->to[LU_Z] - grid->from[LU_Z], rows = grid->to[LU_Y] - grid->from[LU_Y];
    const int start = sweep->up ? grid->from[LU_Z] : grid->to[LU_Z] - 1, step = sweep->up ? 1 : -1;
#pragma omp parallel
    {
        const int threads = omp_get_num_threads(), thread = omp_get_thread_num();
        const int slice = sweep->up ? thread : threads - 1 - thread;
        const int from = grid->from[LU_Y] + rows * slice / threads;
        const int to = grid->from[LU_Y] + rows * (slice + 1) / threads;
        for (int wave = 0; wave < planes + threads; wave++) {
            const int mine = wave - thread, done = wave - threads;
#pragma omp master
            {
                if (done >= 0) lu_send_plane(problem, sweep->up, start + step * done);
                if (wave < planes) lu_receive_plane(problem, sweep->up, start + step * wave);
            }
            if (mine >= 0 && mine < planes)
                sweep_rows(sweep, problem, start + step * mine, from, to);
#pragma omp barrier
        }
    }
}

static struct sweep sweep_of(const struct lu_problem *problem, double omega, int up) {
    struct sweep sweep = {.diagonal = 1.0, .up = up};
    const double dt = problem->dt;
    for (int axis = 0; axis < LU_AXES; axis++) {
        const double t1 = problem->axis[axis].t1, t2 = problem->axis[axis].t2;
        const double damping = problem->axis[axis].damping * t1;
        sweep.weight[axis] =
            (struct weight){(up ? omega : -omega) * dt * t2, omega * dt * t1, omega * dt * damping};
        sweep.diagonal += 2.0 * dt * damping;
        sweep.heat += 2.0 * dt * t1 * LU_C1345;
        for (int of = 0; of < LU_AXES; of++) {
            const double stress = (of == axis ? 4.0 / 3.0 : 1.0) * LU_C34;
            sweep.stress[of] += 2.0 * dt * t1 * stress;
            sweep.work[of] += 2.0 * dt * t1 * (stress - LU_C1345);
        }
    }
    return sweep;
}

void lu_sweeps(struct lu_problem *problem, double omega) {
    const struct sweep up = sweep_of(problem, omega, 1), down = sweep_of(problem, omega, 0);
    run(&up, problem);
    run(&down, problem);
}
