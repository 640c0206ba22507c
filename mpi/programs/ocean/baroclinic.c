#include "baroclinic.h"

#include <math.h>
#include <stdlib.h>

#define PI 3.14159265358979323846

Volume volume_create(const Domain *d) {
    return (Volume){.tracer = field_create(d, d->nz),
                    .u = field_create(d, d->nz),
                    .v = field_create(d, d->nz),
                    .next_tracer = field_create(d, d->nz),
                    .next_u = field_create(d, d->nz),
                    .next_v = field_create(d, d->nz)};
}

void volume_free(Volume *volume) {
    free(volume->tracer);
    free(volume->u);
    free(volume->v);
    free(volume->next_tracer);
    free(volume->next_u);
    free(volume->next_v);
}

void volume_initialise(const Domain *d, Volume *volume) {
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                const int x = d->x0 + i - 1, y = d->y0 + j - 1;
                const double wave = cos(2 * PI * x / d->nx) * cos(PI * (y + 0.5) / d->ny);
                volume->tracer[at(d, k, j, i)] = 10 + 3 * wave + cell_random(d, 0, k, y, x);
                volume->u[at(d, k, j, i)] = 0;
                volume->v[at(d, k, j, i)] = 0;
            }
        }
    }
}

static void swap(double **a, double **b) {
    double *const kept = *a;
    *a = *b;
    *b = kept;
}

/* next = field + what vertical diffusion brings: needs no halo, so it runs beside the exchange. */
static void vertical(const Domain *d, const double *field, double *next) {
    for (int k = 0; k < d->nz; k++) {
        const int above = k > 0 ? k - 1 : k, below = k < d->nz - 1 ? k + 1 : k;
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                const double here = field[at(d, k, j, i)];
                const double in = VERTICAL * (field[at(d, above, j, i)] - here);
                const double out = VERTICAL * (here - field[at(d, below, j, i)]);
                next[at(d, k, j, i)] = here + (in - out);
            }
        }
    }
}

/* Tracer that crosses a face in a step: upwind advection and diffusion. */
static inline double flux(double velocity, double behind, double ahead) {
    return velocity * (velocity > 0 ? behind : ahead) - MIXING * (ahead - behind);
}

static void tracer_horizontal(const Domain *d, Volume *f) {
    const double *t = f->tracer;
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            for (int i = 1; i <= d->mx; i++) {
                const size_t c = at(d, k, j, i), s = at(d, k, j - 1, i), n = at(d, k, j + 1, i);
                const double east = flux(f->u[c], t[c], t[c + 1]);
                const double west = flux(f->u[c - 1], t[c - 1], t[c]);
                const double north = flux(f->v[c], t[c], t[n]);
                const double south = flux(f->v[s], t[s], t[c]);
                f->next_tracer[c] -= (east - west) + (north - south);
            }
        }
    }
}

static inline double laplacian(const double *field, size_t c, size_t s, size_t n) {
    return field[c - 1] + field[c + 1] + field[s] + field[n] - 4 * field[c];
}

/* The acceleration of row j by the wind: westward in the middle, eastward near the walls. */
static double wind(const Domain *d, int k, int j) {
    return k == 0 ? WIND * cos(2 * PI * (d->y0 + j - 0.5) / d->ny) : 0;
}

static void momentum_horizontal(const Domain *d, Volume *f) {
    const double c = cos(ROTATION), s = sin(ROTATION);
    for (int k = 0; k < d->nz; k++) {
        for (int j = 1; j <= d->my; j++) {
            const double push = wind(d, k, j), open = north_wall(d, j) ? 0 : 1;
            for (int i = 1; i <= d->mx; i++) {
                const size_t p = at(d, k, j, i), q = at(d, k, j - 1, i), r = at(d, k, j + 1, i);
                const double u = f->next_u[p] + MIXING * laplacian(f->u, p, q, r) + push;
                const double v = f->next_v[p] + MIXING * laplacian(f->v, p, q, r);
                f->next_u[p] = (1 - DRAG) * (c * u + s * v);
                f->next_v[p] = (1 - DRAG) * (c * v - s * u) * open;
            }
        }
    }
}

/* Exchanges the halos of all three fields, the vertical part of `count` of them meanwhile. */
static void exchange(const Domain *d, Volume *f, bool momentum) {
    Halo tracer = halo_start(d, f->tracer, d->nz, 0);
    Halo u = halo_start(d, f->u, d->nz, 1);
    Halo v = halo_start(d, f->v, d->nz, 2);
    vertical(d, f->tracer, f->next_tracer);
    if (momentum) {
        vertical(d, f->u, f->next_u);
        vertical(d, f->v, f->next_v);
    }
    halo_end(d, &tracer, WALL_COPIES);
    halo_end(d, &u, WALL_COPIES);
    /* The southern halo of v is the wall itself, where nothing ever flows. */
    halo_end(d, &v, WALL_KEEPS);
}

void tracer_step(const Domain *d, Volume *f) {
    exchange(d, f, false);
    tracer_horizontal(d, f);
    swap(&f->tracer, &f->next_tracer);
}

void baroclinic_step(const Domain *d, Volume *f) {
    exchange(d, f, true);
    tracer_horizontal(d, f);
    momentum_horizontal(d, f);
    swap(&f->tracer, &f->next_tracer);
    swap(&f->u, &f->next_u);
    swap(&f->v, &f->next_v);
}
