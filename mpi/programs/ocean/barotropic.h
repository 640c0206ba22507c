/* The two-dimensional, implicit part of a step: the surface and what its slope does to currents.
 *
 * Backward Euler on dη/dt = −div(H ū), dū/dt = −g grad η gives, with mesh width and step of 1,
 *     A η' = η − div(H ū),   A x = x − div(g H grad x),
 * symmetric and positive definite. It is solved by the conjugate gradients of Chronopoulos and Gear
 * (d'Azevedo, Eijkhout & Romine 1993, LAPACK working note 56), preconditioned by the diagonal: one
 * reduction of three numbers and one halo exchange per iteration, the solver of ocean models.
 */
#ifndef OCEAN_BAROTROPIC_H
#define OCEAN_BAROTROPIC_H

#include "baroclinic.h"
#include "domain.h"

#define GRAVITY 1.0
#define MEAN_DEPTH 10.0

typedef struct {
    double *height;       /* of the surface */
    double *east, *north; /* depth at faces; 0 at a wall */
    double *mean_u, *mean_v;
    double *right;   /* right-hand side */
    double *inverse; /* 1 / diagonal of A */
    double *residual, *scaled, *image, *direction, *moved;
} Surface;

typedef struct {
    int iterations;
    bool converged;
} Solved;

Surface surface_create(const Domain *domain);
void surface_free(Surface *surface);
void surface_initialise(const Domain *domain, Surface *surface);

/* Depth at the east and the north face of a cell of the whole domain; 0 at a wall. */
double depth_east(const Domain *domain, int y, int x);
double depth_north(const Domain *domain, int y, int x);

/* Solves A height = right, from the height that is there. A tolerance of 0 takes all iterations. */
Solved surface_solve(const Domain *domain, Surface *surface, int iterations, double tolerance);

Solved barotropic_step(const Domain *domain, Surface *surface, Volume *volume, int iterations,
                       double tolerance);

#endif
