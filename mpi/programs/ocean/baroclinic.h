/* The three-dimensional, explicit part of a step: tracer and momentum. Lengths are in cells and
 * times in steps, so that the mesh width and the time step are 1.
 */
#ifndef OCEAN_BAROCLINIC_H
#define OCEAN_BAROCLINIC_H

#include "domain.h"

#define MIXING 0.05   /* horizontal diffusion, cells² a step */
#define VERTICAL 0.05 /* vertical diffusion, cells² a step */
#define DRAG 0.01     /* share of the velocity lost in a step */
#define ROTATION 0.02 /* angle that a current turns in a step, radians */
#define WIND 1e-3     /* acceleration of the top layer, cells a step² */

typedef struct {
    double *tracer, *u, *v;                /* u, v: east and north faces */
    double *next_tracer, *next_u, *next_v; /* the step under way */
} Volume;

Volume volume_create(const Domain *domain);
void volume_free(Volume *volume);

/* Current at rest, tracer a wave with noise on it. */
void volume_initialise(const Domain *domain, Volume *volume);

/* One step of the tracer alone: upwind advection and diffusion in flux form, so that what leaves a
 * cell enters its neighbour and the sum stays. */
void tracer_step(const Domain *domain, Volume *volume);

/* One step of tracer and momentum; the surface's slope acts in the barotropic part. */
void baroclinic_step(const Domain *domain, Volume *volume);

#endif
