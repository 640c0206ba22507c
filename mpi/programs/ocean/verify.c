#include "verify.h"

#include <complex.h>
#include <math.h>

#define PI 3.14159265358979323846
#define CURRENT 0.3

static double largest(const Domain *d, double mine) {
    double all = 0;
    /* A NaN must not lose against a number in the maximum. */
    double finite = isfinite(mine) ? mine : HUGE_VAL;
    MPI_Allreduce(&finite, &all, 1, MPI_DOUBLE, MPI_MAX, d->comm);
    return all;
}

/* The surface that the solver must find: three waves, and a random part for all the others. */
static double exact_height(const Domain *d, int y, int x) {
    const int i = (x + d->nx) % d->nx;
    double sum = cell_random(d, 2, 0, y, i) - 0.5;
    for (int wave = 1; wave <= 3; wave++) {
        sum += cos(2 * PI * wave * (i + 0.25) / d->nx) * cos(PI * wave * (y + 0.5) / d->ny);
    }
    return sum;
}

/* (A x)(y, x) from the formula, by cells of the whole domain: no halo, no array. */
static double exact_right(const Domain *d, int y, int x) {
    const double here = exact_height(d, y, x);
    double sum = depth_east(d, y, x) * (here - exact_height(d, y, x + 1)) +
                 depth_east(d, y, x - 1) * (here - exact_height(d, y, x - 1));
    if (y + 1 < d->ny) {
        sum += depth_north(d, y, x) * (here - exact_height(d, y + 1, x));
    }
    if (y > 0) {
        sum += depth_north(d, y - 1, x) * (here - exact_height(d, y - 1, x));
    }
    return here + GRAVITY * sum;
}

static double solver_error(const Domain *d, Surface *s) {
    double worst = 0;
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            s->right[at(d, 0, j, i)] = exact_right(d, d->y0 + j - 1, d->x0 + i - 1);
            s->height[at(d, 0, j, i)] = 0;
        }
    }
    (void)surface_solve(d, s, 10 * (d->nx + d->ny), 1e-12);
    for (int j = 1; j <= d->my; j++) {
        for (int i = 1; i <= d->mx; i++) {
            const double exact = exact_height(d, d->y0 + j - 1, d->x0 + i - 1);
            const double error = fabs(s->height[at(d, 0, j, i)] - exact);
            worst = error <= worst ? worst : error;
        }
    }
    return largest(d, worst);
}

/* Where the tracer was a wave of length 1 in each direction, and the current is the same eastward
 * everywhere, a step multiplies the wave by one complex number (von Neumann analysis). */
static double complex amplification(const Domain *d) {
    const double x = 2 * PI / d->nx, y = PI / d->ny, z = d->nz > 1 ? PI / d->nz : 0;
    const double mixed = MIXING * (2 - 2 * cos(x) + 2 - 2 * cos(y)) + VERTICAL * (2 - 2 * cos(z));
    return 1 - CURRENT * (1 - cexp(-I * x)) - mixed;
}

static double exact_tracer(const Domain *d, double complex factor, int z, int y, int x) {
    const double across =
        cos(PI * (y + 0.5) / d->ny) * (d->nz > 1 ? cos(PI * (z + 0.5) / d->nz) : 1);
    return creal(factor * cexp(I * 2 * PI * x / d->nx)) * across;
}

static double tracer_error(const Domain *d, Volume *f) {
    const int steps = 8;
    const double complex factor = cpow(amplification(d), steps);
    double worst = 0;
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                const size_t c = at(d, k, j, i);
                f->tracer[c] = exact_tracer(d, 1, k, d->y0 + j - 1, d->x0 + i - 1);
                f->u[c] = CURRENT;
                f->v[c] = 0;
            }
        }
    }
    for (int step = 0; step < steps; step++) {
        tracer_step(d, f);
    }
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                const double exact = exact_tracer(d, factor, k, d->y0 + j - 1, d->x0 + i - 1);
                const double error = fabs(f->tracer[at(d, k, j, i)] - exact);
                worst = error <= worst ? worst : error;
            }
        }
    }
    return largest(d, worst);
}

Manufactured verify_manufactured(const Domain *d, Surface *surface, Volume *volume) {
    return (Manufactured){.solver = solver_error(d, surface), .tracer = tracer_error(d, volume)};
}

double verify_tracer_sum(const Domain *d, const Volume *f) {
    long double sum = 0, all = 0;
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                sum += f->tracer[at(d, k, j, i)];
            }
        }
    }
    MPI_Allreduce(&sum, &all, 1, MPI_LONG_DOUBLE, MPI_SUM, d->comm);
    return (double)all;
}

Checksums verify_checksums(const Domain *d, const Surface *s, const Volume *f) {
    double sums[3] = {0}, all[3];
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                const size_t c = at(d, k, j, i);
                const double weight = cell_random(d, 3, k, d->y0 + j - 1, d->x0 + i - 1);
                sums[0] += weight * f->tracer[c];
                sums[1] += k == 0 ? weight * fabs(s->height[c]) : 0;
                sums[2] += weight * (f->u[c] * f->u[c] + f->v[c] * f->v[c]);
            }
        }
    }
    MPI_Allreduce(sums, all, 3, MPI_DOUBLE, MPI_SUM, d->comm);
    return (Checksums){all[0], all[1], all[2]};
}
