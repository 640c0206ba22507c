/* The means, the single figures, and the result as JSON. */
#include "beffio.h"

#include <math.h>
#include <stdio.h>

/* By the rules a result counts from half an hour on. */
static const double LEAST_TIME = 1800;
static const char *const METHOD_NAMES[METHODS] = {"write", "rewrite", "read"};

typedef struct {
    double bytes, seconds; /* of all ranks; from open to close */
} Sum;

/* Of all ranks, by one pattern. */
static double moved(const Run *run, const Pattern *p, int method) {
    return (double)run->done[method][p - run->patterns].calls * (double)p->call * run->ranks;
}

static Sum sum_of(const Run *run, int type, int method) {
    Sum sum = {0, run->handling[method][type]};
    for (int i = 0; i < run->count; i++) {
        if (run->patterns[i].type == type) {
            sum.bytes += moved(run, &run->patterns[i], method);
            sum.seconds += run->done[method][i].seconds;
        }
    }
    return sum;
}

static double rate_of(const Run *run, int type, int method) {
    const Sum sum = sum_of(run, type, method);
    return sum.bytes / sum.seconds;
}

/* Mean over the pattern types, the scattering one counted twice: the second time as `scattered`. */
static double mean_of(const Run *run, int method, int scattered) {
    double rates = rate_of(run, SCATTER, scattered);
    for (int type = 0; type < TYPES; type++) {
        rates += rate_of(run, type, method);
    }
    return rates / (TYPES + 1);
}

static bool all_types(const Run *run) {
    for (int type = 0; type < TYPES; type++) {
        if (!run->options.types[type]) {
            return false;
        }
    }
    return true;
}

static void print_head(const Run *run) {
    const Options *o = &run->options;
    (void)printf("{\"program\":\"beffio\",\"format\":2,\"ranks\":%d,\"scheduled_s\":%.9g,"
                 "\"memory_bytes\":%lld,\"largest_chunk_bytes\":%lld,\"segment_bytes\":%lld,"
                 "\"shared_pointers\":%s,\"seed\":%llu",
                 run->ranks, o->time, (long long)o->memory, (long long)largest_chunk(o->memory),
                 (long long)run->segment, o->noshared ? "false" : "true",
                 (unsigned long long)o->seed);
}

/* What keeps it from being a result by the rules. */
static void print_labels(const Run *run) {
    const char *labels[3];
    int count = 0;
    if (run->options.time < LEAST_TIME) {
        labels[count++] = "scheduled for less than 1800 s";
    }
    if (run->options.noshared) {
        labels[count++] = "no shared file pointers";
    }
    if (!all_types(run)) {
        labels[count++] = "not all pattern types";
    }
    (void)printf(",\"labels\":[");
    for (int i = 0; i < count; i++) {
        (void)printf("%s\"%s\"", i > 0 ? "," : "", labels[i]);
    }
    (void)printf("]");
}

static void print_patterns(const Run *run) {
    const char *comma = "";
    (void)printf(",\"patterns\":[");
    for (int method = 0; method < METHODS; method++) {
        for (int i = 0; i < run->count; i++) {
            const Pattern *p = &run->patterns[i];
            const Done *done = &run->done[method][i];
            if (done->calls > 0) {
                (void)printf(
                    "%s\n{\"method\":\"%s\",\"type\":%d,\"number\":%d,\"chunk_bytes\":%lld,"
                    "\"call_bytes\":%lld,\"units\":%d,\"calls\":%lld,\"bytes\":%.0f,"
                    "\"seconds\":%.9g}",
                    comma, METHOD_NAMES[method], p->type, p->number, (long long)p->chunk,
                    (long long)p->call, p->units, (long long)done->calls, moved(run, p, method),
                    done->seconds);
                comma = ",";
            }
        }
    }
    (void)printf("]");
}

static double print_types(const Run *run) {
    const char *comma = "";
    double effective = 0;
    (void)printf(",\"types\":[");
    for (int method = 0; method < METHODS; method++) {
        for (int type = 0; type < TYPES; type++) {
            if (run->options.types[type]) {
                const Sum sum = sum_of(run, type, method);
                (void)printf("%s\n{\"method\":\"%s\",\"type\":%d,\"bytes\":%.0f,\"seconds\":%.9g}",
                             comma, METHOD_NAMES[method], type, sum.bytes, sum.seconds);
                comma = ",";
                effective += sum.seconds;
            }
        }
    }
    (void)printf("]");
    return effective;
}

/* Means of some types alone are not b_eff_io: null. The figure of release 2.1 takes the scattering
 * once as first written and once as rewritten; that of release 1 had fixed weights. */
static void print_means(const Run *run) {
    if (!all_types(run)) {
        (void)printf(",\"write\":null,\"rewrite\":null,\"read\":null,\"b_eff_io\":null,"
                     "\"b_eff_io_release_1\":null");
        return;
    }
    const double write = mean_of(run, WRITE, WRITE), rewrite = mean_of(run, REWRITE, REWRITE);
    const double read = mean_of(run, READ, READ);
    (void)printf(",\"write\":%.9g,\"rewrite\":%.9g,\"read\":%.9g,\"b_eff_io\":%.9g,"
                 "\"b_eff_io_release_1\":%.9g",
                 write, rewrite, read, sqrt(mean_of(run, WRITE, REWRITE) * read),
                 0.25 * write + 0.25 * rewrite + 0.5 * read);
}

void report_print(const Run *run) {
    print_head(run);
    print_labels(run);
    print_patterns(run);
    const double effective = print_types(run);
    (void)printf(",\"effective_s\":%.9g,\"wall_s\":%.9g", effective, run->wall);
    print_means(run);
    (void)printf("}\n");
}
