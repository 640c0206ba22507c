#include "stamps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double *doubles(size_t count) {
    double *numbers = calloc(count, sizeof *numbers);
    if (numbers == NULL) {
        (void)fprintf(stderr, "ocean: error: no memory for time-stamps\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return numbers;
}

Stamps stamps_start(void) {
    Stamps stamps = {0};
    stamps.start = stamps_now(&stamps);
    return stamps;
}

void stamps_allocate(Stamps *stamps, int steps) {
    stamps->steps = steps;
    stamps->taken = doubles((size_t)steps * STAGES);
    /* Page faults belong here, not into the steps. */
    for (size_t i = 0; i < (size_t)steps * STAGES; i++) {
        stamps->taken[i] = -1;
    }
}

void stamps_free(Stamps *stamps) { free(stamps->taken); }

double stamps_now(Stamps *stamps) {
    stamps->calls++;
    return MPI_Wtime();
}

void stamps_probe(const Domain *d, Stamps *stamps, double *probes) {
    for (int i = 0; i < PROBES; i++) {
        MPI_Barrier(d->comm);
        probes[i] = stamps_now(stamps);
    }
}

static double *gather(const Domain *d, const double *mine, int count) {
    double *all = d->rank == 0 ? doubles((size_t)d->ranks * (size_t)count) : NULL;
    MPI_Gather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, 0, d->comm);
    return all;
}

Gathered stamps_gather(const Domain *d, const Stamps *stamps) {
    return (Gathered){.ranks = d->ranks,
                      .steps = stamps->steps,
                      .taken = gather(d, stamps->taken, stamps->steps * STAGES),
                      .before = gather(d, stamps->before, PROBES),
                      .after = gather(d, stamps->after, PROBES),
                      .processor = gather(d, &stamps->processor, 1)};
}

void gathered_free(Gathered *gathered) {
    free(gathered->taken);
    free(gathered->before);
    free(gathered->after);
    free(gathered->processor);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static double spread(const double *values, int count, int stride) {
    double least = values[0], most = values[0];
    for (int i = 1; i < count; i++) {
        least = fmin(least, values[i * stride]);
        most = fmax(most, values[i * stride]);
    }
    return most - least;
}

/* Each rank's reading minus rank 0's: the median, for a rank may be kept waiting after a barrier. */
static double *offsets(const double *probes, int ranks) {
    double *offsets = doubles((size_t)ranks), differences[PROBES];
    for (int rank = 1; rank < ranks; rank++) {
        for (int i = 0; i < PROBES; i++) {
            differences[i] = probes[rank * PROBES + i] - probes[i];
        }
        offsets[rank] = median(differences, PROBES);
    }
    return offsets;
}

static const double *stamp(const Gathered *g, int rank, int step, int stage) {
    return &g->taken[((size_t)rank * (size_t)g->steps + (size_t)step) * STAGES + (size_t)stage];
}

/* No rank can leave the barotropic part before all have entered it: its reductions hold it. */
static bool impossible(const Gathered *g, int step) {
    double last_in = -HUGE_VAL, first_out = HUGE_VAL;
    for (int rank = 0; rank < g->ranks; rank++) {
        last_in = fmax(last_in, *stamp(g, rank, step, BAROCLINIC_END));
        first_out = fmin(first_out, *stamp(g, rank, step, BAROTROPIC_END));
    }
    return last_in > first_out;
}

static long backward(const Gathered *g) {
    long backward = 0;
    for (int rank = 0; rank < g->ranks; rank++) {
        const double *own = stamp(g, rank, 0, 0);
        for (size_t i = 1; i < (size_t)g->steps * STAGES; i++) {
            backward += own[i] < own[i - 1];
        }
    }
    return backward;
}

static double step_spread(const Gathered *g) {
    double *spreads = doubles((size_t)g->steps);
    for (int step = 0; step < g->steps; step++) {
        spreads[step] = spread(stamp(g, 0, step, BAROTROPIC_END), g->ranks, g->steps * STAGES);
    }
    const double spread = median(spreads, g->steps);
    free(spreads);
    return spread;
}

Skew skew_create(const Gathered *g) {
    Skew skew = {.before = offsets(g->before, g->ranks),
                 .after = offsets(g->after, g->ranks),
                 .step_spread = step_spread(g),
                 .backward = backward(g)};
    skew.spread_before = spread(skew.before, g->ranks, 1);
    skew.spread_after = spread(skew.after, g->ranks, 1);
    for (int step = 0; step < g->steps; step++) {
        skew.impossible += impossible(g, step);
    }
    return skew;
}

void skew_free(Skew *skew) {
    free(skew->before);
    free(skew->after);
}
