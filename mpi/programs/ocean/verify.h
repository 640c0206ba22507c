/* Is it right? Problems whose discrete solution is known, sums that must stay, checksums. */
#ifndef OCEAN_VERIFY_H
#define OCEAN_VERIFY_H

#include "barotropic.h"

/* Largest deviations from the known solutions, relative to their size. */
typedef struct {
    double solver; /* of the surface solve */
    double tracer; /* of eight steps of advection and diffusion */
} Manufactured;

#define SOLVER_LIMIT 1e-9
#define TRACER_LIMIT 1e-11
/* Of the relative change of the tracer's sum: rounding, with room for 10⁷ steps. */
#define CONSERVATION_LIMIT 1e-10

/* Sums over the whole domain, each cell with a random weight of its own, so that a cell at a wrong
 * place is seen. Equal on any number of ranks but for rounding. */
typedef struct {
    double tracer, surface, current;
} Checksums;

Manufactured verify_manufactured(const Domain *domain, Surface *surface, Volume *volume);

/* Sum of the tracer over the whole domain, in long double here, so that only the model rounds. */
double verify_tracer_sum(const Domain *domain, const Volume *volume);

Checksums verify_checksums(const Domain *domain, const Surface *surface, const Volume *volume);

#endif
