#include "report.h"

#include <math.h>
#include <string.h>

double result_conservation(const Result *result) {
    return fabs(result->tracer_after - result->tracer_before) / fabs(result->tracer_before);
}

bool result_verified(const Result *r) {
    return r->manufactured.solver <= SOLVER_LIMIT && r->manufactured.tracer <= TRACER_LIMIT &&
           result_conservation(r) <= CONSERVATION_LIMIT && r->unconverged == 0 &&
           isfinite(r->checksums.tracer) && isfinite(r->checksums.surface) &&
           isfinite(r->checksums.current);
}

/* JSON has no NaN. */
static void number(FILE *file, const char *name, double value) {
    if (isfinite(value)) {
        (void)fprintf(file, "\"%s\": %.17g", name, value);
    } else {
        (void)fprintf(file, "\"%s\": null", name);
    }
}

/* Stamps to the nanosecond. */
static void series(FILE *file, const char *name, const double *values, int count, int stride) {
    (void)fprintf(file, "\"%s\": [", name);
    for (int i = 0; i < count; i++) {
        (void)fprintf(file, "%s%.9f", i > 0 ? ", " : "", values[(size_t)i * (size_t)stride]);
    }
    (void)fputc(']', file);
}

static void library(FILE *file) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    /* MPICH's is several lines of tab-separated fields; nothing in it may end the JSON string. */
    for (char *c = text; *c != '\0'; c++) {
        *c = strchr("\n\t\"\\", *c) == NULL ? *c : ' ';
    }
    (void)fprintf(file, " \"mpi\": \"%.60s\",\n", text);
}

static void setting(FILE *file, const Options *o, const Domain *d) {
    library(file);
    (void)fprintf(file, " \"ranks\": %d, \"across\": [%d, %d],\n", d->ranks, d->across[1],
                  d->across[0]);
    (void)fprintf(file, " \"nx\": %d, \"ny\": %d, \"nz\": %d, \"steps\": %d, \"seed\": %d,\n",
                  o->nx, o->ny, o->nz, o->steps, (int)o->seed);
    (void)fprintf(file, " \"solver_iterations\": %d, ", o->solver_iterations);
    number(file, "tolerance", o->tolerance);
    (void)fputs(",\n", file);
}

static void verification(FILE *file, const Result *r) {
    (void)fprintf(file, " \"verified\": %s,\n \"verification\": {",
                  result_verified(r) ? "true" : "false");
    number(file, "solver_error", r->manufactured.solver);
    (void)fputs(", ", file);
    number(file, "tracer_error", r->manufactured.tracer);
    (void)fputs(", ", file);
    number(file, "tracer_sum_change", result_conservation(r));
    (void)fprintf(file, ", \"unconverged_steps\": %ld},\n \"checksums\": {", r->unconverged);
    number(file, "tracer", r->checksums.tracer);
    (void)fputs(", ", file);
    number(file, "surface", r->checksums.surface);
    (void)fputs(", ", file);
    number(file, "current", r->checksums.current);
    (void)fprintf(file, "},\n \"iterations\": %ld,\n", r->iterations);
}

static void times(FILE *file, const Result *r) {
    (void)fputs(" ", file);
    number(file, "total_s", r->total);
    (void)fputs(", ", file);
    number(file, "total_monotonic_raw_s", r->total_raw);
    (void)fputs(",\n ", file);
    number(file, "wtick_s", r->tick);
    (void)fprintf(file, ", \"wtime_calls_per_rank\": %ld,\n", r->calls);
    (void)fprintf(file, " \"wtime_is_global\": %s,\n",
                  !r->global_set ? "null" : (r->global ? "true" : "false"));
}

static void clocks(FILE *file, const Gathered *g) {
    Skew skew = skew_create(g);
    (void)fputs(" \"skew\": {", file);
    series(file, "before_s", skew.before, g->ranks, 1);
    (void)fputs(", ", file);
    series(file, "after_s", skew.after, g->ranks, 1);
    (void)fprintf(file,
                  ",\n  \"spread_before_s\": %.9f, \"spread_after_s\": %.9f,"
                  " \"step_spread_s\": %.9f,\n"
                  "  \"impossible_steps\": %ld, \"backward_stamps\": %ld},\n",
                  skew.spread_before, skew.spread_after, skew.step_spread, skew.impossible,
                  skew.backward);
    skew_free(&skew);
    /* Ranks poll while they wait, so what is missing from the total was taken by others. */
    (void)fputc(' ', file);
    series(file, "processor_s", g->processor, g->ranks, 1);
    (void)fputs(",\n", file);
}

static void stamps(FILE *file, const Gathered *g) {
    static const char *const NAMES[STAGES] = {"start_s", "baroclinic_end_s", "barotropic_end_s"};
    (void)fputs(" \"stamps\": [\n", file);
    for (int rank = 0; rank < g->ranks; rank++) {
        const double *own = &g->taken[(size_t)rank * (size_t)g->steps * STAGES];
        for (int stage = 0; stage < STAGES; stage++) {
            (void)fputs(stage == 0 ? "  {" : ",\n   ", file);
            series(file, NAMES[stage], own + stage, g->steps, STAGES);
        }
        (void)fprintf(file, "}%s\n", rank < g->ranks - 1 ? "," : "");
    }
    (void)fputs(" ]", file);
}

bool report_write(FILE *file, const Options *options, const Domain *domain, const Result *result,
                  const Gathered *gathered) {
    (void)fputs("{\n", file);
    setting(file, options, domain);
    verification(file, result);
    times(file, result);
    clocks(file, gathered);
    stamps(file, gathered);
    (void)fputs("\n}\n", file);
    return fflush(file) == 0 && ferror(file) == 0;
}
