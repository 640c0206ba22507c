/* The result as JSON. */
#ifndef OCEAN_REPORT_H
#define OCEAN_REPORT_H

#include "options.h"
#include "stamps.h"
#include "verify.h"

#include <stdio.h>

typedef struct {
    double total;     /* the steps, by rank 0's MPI_Wtime, s */
    double total_raw; /* the same by CLOCK_MONOTONIC_RAW, which nothing slews, s */
    double tick;      /* MPI_Wtick, s */
    bool global_set, global;
    long iterations;  /* of all solves */
    long unconverged; /* steps whose solve ended at the most iterations */
    double tracer_before, tracer_after;
    Manufactured manufactured;
    Checksums checksums;
    long calls; /* of MPI_Wtime by each rank */
} Result;

/* Relative change of the tracer's sum. */
double result_conservation(const Result *result);

/* Every check passed. */
bool result_verified(const Result *result);

/* False when it could not be written. */
bool report_write(FILE *file, const Options *options, const Domain *domain, const Result *result,
                  const Gathered *gathered);

#endif
