/* ocean: a program with the shape of an ocean model. Every step has an explicit three-dimensional
 * part with halo exchanges and an implicit two-dimensional solve with global reductions, and reads
 * MPI_Wtime three times, as such models do. The physics is simple, but checked.
 */
#include "barotropic.h"
#include "options.h"
#include "report.h"
#include "stamps.h"
#include "verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VERIFIED = 0, NOT_VERIFIED = 1, BAD_OPTION = 2 };

/* Says once for all ranks what is wrong. */
static int refuse(int rank, const char *why) {
    if (rank == 0) {
        (void)fprintf(stderr, "ocean: error: %s\nhint: ocean --help\n", why);
    }
    return BAD_OPTION;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Nothing is sent in here but what the model itself sends. */
static void run(const Options *o, const Domain *d, Volume *volume, Surface *surface, Stamps *stamps,
                Result *result) {
    for (int step = 0; step < o->steps; step++) {
        double *taken = &stamps->taken[(size_t)step * STAGES];
        taken[START] = stamps_now(stamps);
        baroclinic_step(d, volume);
        taken[BAROCLINIC_END] = stamps_now(stamps);
        const Solved solved =
            barotropic_step(d, surface, volume, o->solver_iterations, o->tolerance);
        taken[BAROTROPIC_END] = stamps_now(stamps);
        result->iterations += solved.iterations;
        result->unconverged += !solved.converged;
    }
}

static void ask_library(Result *result) {
    int *value = NULL, set = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &set);
    result->global_set = set != 0;
    result->global = set != 0 && *value != 0;
    result->tick = MPI_Wtick();
}

static Result measure(const Options *o, const Domain *d, Stamps *stamps) {
    Result result = {0};
    Volume volume = volume_create(d);
    Surface surface = surface_create(d);
    result.manufactured = verify_manufactured(d, &surface, &volume);
    volume_initialise(d, &volume);
    surface_initialise(d, &surface);
    result.tracer_before = verify_tracer_sum(d, &volume);
    stamps_probe(d, stamps, stamps->before);
    const double had = seconds(CLOCK_PROCESS_CPUTIME_ID), began = seconds(CLOCK_MONOTONIC_RAW);
    run(o, d, &volume, &surface, stamps, &result);
    result.total_raw = seconds(CLOCK_MONOTONIC_RAW) - began;
    stamps->processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - had;
    stamps_probe(d, stamps, stamps->after);
    result.total = stamps->taken[(size_t)o->steps * STAGES - 1] - stamps->taken[START];
    result.calls = stamps->calls;
    result.tracer_after = verify_tracer_sum(d, &volume);
    result.checksums = verify_checksums(d, &surface, &volume);
    ask_library(&result);
    volume_free(&volume);
    surface_free(&surface);
    return result;
}

static void summary(const Options *o, const Domain *d, const Result *r) {
    (void)printf("ocean: %d ranks, %d steps, %.6f s, checksums %.12e %.12e %.12e, %s\n", d->ranks,
                 o->steps, r->total, r->checksums.tracer, r->checksums.surface,
                 r->checksums.current, result_verified(r) ? "verified" : "NOT VERIFIED");
}

/* Status of the program; collective. */
static int model(const Options *o, const Domain *d, Stamps *stamps, FILE *file) {
    stamps_allocate(stamps, o->steps);
    const Result result = measure(o, d, stamps);
    Gathered gathered = stamps_gather(d, stamps);
    int status = result_verified(&result) ? VERIFIED : NOT_VERIFIED;
    if (d->rank == 0) {
        if (!report_write(file, o, d, &result, &gathered)) {
            (void)fprintf(stderr, "ocean: error: the result could not be written: %s\n",
                          strerror(errno));
            status = NOT_VERIFIED;
        }
        if (o->json != NULL) {
            summary(o, d, &result);
        }
    }
    gathered_free(&gathered);
    stamps_free(stamps);
    return status;
}

/* Opened before anything is measured. All ranks learn whether it worked. */
static int with_file(const Options *o, const Domain *d, Stamps *stamps) {
    FILE *file = stdout;
    int opened = 1, status;
    if (d->rank == 0 && o->json != NULL) {
        file = fopen(o->json, "w");
        opened = file != NULL;
        if (!opened) {
            (void)fprintf(stderr, "ocean: error: --json %s: %s\n", o->json, strerror(errno));
        }
    }
    MPI_Bcast(&opened, 1, MPI_INT, 0, d->comm);
    if (!opened) {
        return BAD_OPTION;
    }
    status = model(o, d, stamps, file);
    if (file != stdout && fclose(file) != 0) {
        (void)fprintf(stderr, "ocean: error: --json %s: %s\n", o->json, strerror(errno));
        status = NOT_VERIFIED;
    }
    return status;
}

static int started(int argc, char **argv) {
    Stamps stamps = stamps_start();
    Options options;
    Domain domain;
    char why[256];
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!options_parse(&options, argc, argv, why, sizeof why)) {
        return refuse(rank, why);
    }
    if (options.help) {
        if (rank == 0) {
            (void)fputs(options_help(), stdout);
        }
        return VERIFIED;
    }
    if (!domain_create(&domain, MPI_COMM_WORLD, options.nx, options.ny, options.nz, options.seed)) {
        (void)snprintf(why, sizeof why, "%d × %d cells are too few for %d ranks", options.nx,
                       options.ny, ranks);
        return refuse(rank, why);
    }
    const int status = with_file(&options, &domain, &stamps);
    domain_free(&domain);
    return status;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const int status = started(argc, argv);
    MPI_Finalize();
    return status;
}
