#include "barotropic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

static double depth(const Domain *d, int y, int x) {
    const int wrapped = (x + d->nx) % d->nx;
    const double wave = cos(4 * PI * wrapped / d->nx) * cos(2 * PI * (y + 0.5) / d->ny);
    return MEAN_DEPTH * (1 + 0.3 * wave + 0.2 * (cell_random(d, 1, 0, y, wrapped) - 0.5));
}

double depth_east(const Domain *d, int y, int x) {
    return (depth(d, y, x) + depth(d, y, x + 1)) / 2;
}

double depth_north(const Domain *d, int y, int x) {
    return y < 0 || y + 1 >= d->ny ? 0 : (depth(d, y, x) + depth(d, y + 1, x)) / 2;
}

Surface surface_create(const Domain *d) {
    Surface s = {.height = field_create(d, 1),
                 .east = field_create(d, 1),
                 .north = field_create(d, 1),
                 .mean_u = field_create(d, 1),
                 .mean_v = field_create(d, 1),
                 .right = field_create(d, 1),
                 .inverse = field_create(d, 1),
                 .residual = field_create(d, 1),
                 .scaled = field_create(d, 1),
                 .image = field_create(d, 1),
                 .direction = field_create(d, 1),
                 .moved = field_create(d, 1)};
    for (int j = 0; j <= d->my; j++) {
        for (int i = 0; i <= d->mx; i++) {
            const int y = d->y0 + j - 1, x = d->x0 + i - 1;
            /* Row −1 lies south of the wall: its northern face is the wall. */
            s.east[at(d, 0, j, i)] = y < 0 ? 0 : depth_east(d, y, x);
            s.north[at(d, 0, j, i)] = depth_north(d, y, x);
        }
    }
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const size_t c = at(d, 0, j, i);
            const double around =
                s.east[c] + s.east[c - 1] + s.north[c] + s.north[at(d, 0, j - 1, i)];
            s.inverse[c] = 1 / (1 + GRAVITY * around);
        }
    }
    return s;
}

void surface_free(Surface *s) {
    double *const fields[] = {s->height, s->east,  s->north,     s->mean_u,
                              s->mean_v, s->right, s->inverse,   s->residual,
                              s->scaled, s->image, s->direction, s->moved};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        free(fields[i]);
    }
}

void surface_initialise(const Domain *d, Surface *s) {
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const int x = d->x0 + i - 1, y = d->y0 + j - 1;
            s->height[at(d, 0, j, i)] = 0.1 * sin(2 * PI * x / d->nx) * cos(PI * (y + 0.5) / d->ny);
        }
    }
}

/* image = A x; x's halo is exchanged first. */
static void apply(const Domain *d, const Surface *s, double *x, double *image) {
    Halo halo = halo_start(d, x, 1, 0);
    halo_end(d, &halo, WALL_COPIES);
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const size_t c = at(d, 0, j, i), b = at(d, 0, j - 1, i), a = at(d, 0, j + 1, i);
            const double east_west =
                s->east[c] * (x[c] - x[c + 1]) + s->east[c - 1] * (x[c] - x[c - 1]);
            const double north_south = s->north[c] * (x[c] - x[a]) + s->north[b] * (x[c] - x[b]);
            image[c] = x[c] + GRAVITY * (east_west + north_south);
        }
    }
}

static double dot(const Domain *d, const double *a, const double *b) {
    double sum = 0;
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            sum += a[at(d, 0, j, i)] * b[at(d, 0, j, i)];
        }
    }
    return sum;
}

/* residual = right − A height; returns |right|². */
static double begin(const Domain *d, Surface *s) {
    double square = dot(d, s->right, s->right);
    apply(d, s, s->height, s->image);
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const size_t c = at(d, 0, j, i);
            s->residual[c] = s->right[c] - s->image[c];
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &square, 1, MPI_DOUBLE, MPI_SUM, d->comm);
    return square;
}

static void precondition(const Domain *d, Surface *s) {
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const size_t c = at(d, 0, j, i);
            s->scaled[c] = s->inverse[c] * s->residual[c];
        }
    }
}

/* Takes a step of length alpha along the new direction, scaled + beta · old direction. */
static void advance(const Domain *d, Surface *s, double alpha, double beta) {
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const size_t c = at(d, 0, j, i);
            s->direction[c] = s->scaled[c] + beta * s->direction[c];
            s->moved[c] = s->image[c] + beta * s->moved[c];
            s->height[c] += alpha * s->direction[c];
            s->residual[c] -= alpha * s->moved[c];
        }
    }
}

Solved surface_solve(const Domain *d, Surface *s, int iterations, double tolerance) {
    const double limit = tolerance * tolerance * begin(d, s);
    double rho_before = 0, sigma = 0;
    for (int iteration = 0;; iteration++) {
        precondition(d, s);
        apply(d, s, s->scaled, s->image);
        double sums[3] = {dot(d, s->residual, s->scaled), dot(d, s->scaled, s->image),
                          dot(d, s->residual, s->residual)};
        MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, d->comm);
        /* At a residual of 0 (or one whose square is) there is no direction left to go. */
        if (sums[2] <= limit || sums[1] == 0) {
            return (Solved){iteration, true};
        }
        if (iteration == iterations) {
            return (Solved){iteration, tolerance == 0};
        }
        const double beta = iteration == 0 ? 0 : sums[0] / rho_before;
        sigma = sums[1] - beta * beta * sigma;
        rho_before = sums[0];
        advance(d, s, sums[0] / sigma, beta);
    }
}

static void depth_means(const Domain *d, Surface *s, const Volume *volume) {
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            double u = 0, v = 0;
            for (int k = 0; k < d->nz; k++) {
                u += volume->u[at(d, k, j, i)];
                v += volume->v[at(d, k, j, i)];
            }
            s->mean_u[at(d, 0, j, i)] = u / d->nz;
            s->mean_v[at(d, 0, j, i)] = v / d->nz;
        }
    }
    Halo east = halo_start(d, s->mean_u, 1, 0);
    Halo north = halo_start(d, s->mean_v, 1, 1);
    halo_end(d, &east, WALL_KEEPS);
    halo_end(d, &north, WALL_KEEPS);
}

static void right_hand_side(const Domain *d, Surface *s) {
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const size_t c = at(d, 0, j, i), b = at(d, 0, j - 1, i);
            const double x = s->east[c] * s->mean_u[c] - s->east[c - 1] * s->mean_u[c - 1];
            const double y = s->north[c] * s->mean_v[c] - s->north[b] * s->mean_v[b];
            s->right[c] = s->height[c] - (x + y);
        }
    }
}

/* The slope of the new surface accelerates all layers alike. */
static void push(const Domain *d, Surface *s, Volume *volume) {
    Halo halo = halo_start(d, s->height, 1, 0);
    halo_end(d, &halo, WALL_COPIES);
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                const size_t c = at(d, 0, j, i), a = at(d, 0, j + 1, i);
                volume->u[at(d, k, j, i)] -= GRAVITY * (s->height[c + 1] - s->height[c]);
                volume->v[at(d, k, j, i)] -= GRAVITY * (s->height[a] - s->height[c]);
            }
        }
    }
}

Solved barotropic_step(const Domain *d, Surface *s, Volume *volume, int iterations,
                       double tolerance) {
    depth_means(d, s, volume);
    right_hand_side(d, s);
    const Solved solved = surface_solve(d, s, iterations, tolerance);
    push(d, s, volume);
    return solved;
}
