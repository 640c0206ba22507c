/* The time-stamps that every rank takes by MPI_Wtime, and what they say together of its clocks. */
#ifndef OCEAN_STAMPS_H
#define OCEAN_STAMPS_H

#include "domain.h"

/* Barriers before, and again after the steps, to compare the ranks' clocks by. */
#define PROBES 33

enum { START, BAROCLINIC_END, BAROTROPIC_END, STAGES };

typedef struct {
    int steps;
    long calls;    /* of MPI_Wtime by this rank */
    double *taken; /* [steps][STAGES] of this rank, s */
    double start;  /* first thing after MPI_Init: Open MPI's clock counts from its first reading */
    double before[PROBES], after[PROBES];
    double processor; /* processor time of this rank in the steps, s */
} Stamps;

/* All ranks' stamps; on rank 0 only. */
typedef struct {
    int ranks, steps;
    double *taken;          /* [ranks][steps][STAGES], s */
    double *before, *after; /* [ranks][PROBES], s */
    double *processor;      /* [ranks], s */
} Gathered;

/* What the clocks of the ranks look like from the program, s. */
typedef struct {
    double *before, *after; /* [ranks]: reading minus rank 0's, median over the barriers */
    double spread_before, spread_after; /* largest minus smallest of these */
    double step_spread;                 /* median over steps, at the end of the barotropic part */
    long impossible; /* steps in which a rank left the first reduction before another came to it */
    long backward;   /* stamps of one rank that are earlier than the one before */
} Skew;

/* Takes the first reading. */
Stamps stamps_start(void);

/* Makes room for the steps. */
void stamps_allocate(Stamps *stamps, int steps);
void stamps_free(Stamps *stamps);

/* The only caller of MPI_Wtime in this program. */
double stamps_now(Stamps *stamps);

/* Stamps taken right after a barrier, when all ranks have the same true time but for its exit. */
void stamps_probe(const Domain *domain, Stamps *stamps, double *probes);

Gathered stamps_gather(const Domain *domain, const Stamps *stamps);
void gathered_free(Gathered *gathered);

Skew skew_create(const Gathered *gathered);
void skew_free(Skew *skew);

#endif
