/* What every rank says of its synchronisations: one line of JSON. */
#include "shim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void text(FILE *out, const char *value) {
    (void)fputc('"', out);
    for (; *value != '\0'; value++) {
        const unsigned char letter = (unsigned char)*value;
        if (letter == '"' || letter == '\\' || letter < ' ') {
            (void)fprintf(out, "\\u%04x", letter);
        } else {
            (void)fputc(letter, out);
        }
    }
    (void)fputc('"', out);
}

static void member(FILE *out, const char *name, const char *value) {
    (void)fprintf(out, "\"%s\": ", name);
    if (value != NULL) {
        text(out, value);
    } else {
        (void)fputs("null", out);
    }
    (void)fputs(", ", out);
}

/* Bounds that bound nothing are null. */
static void bound(FILE *out, const char *name, uint64_t ns) {
    if (ns == UINT64_MAX) {
        (void)fprintf(out, "\"%s\": null, ", name);
    } else {
        (void)fprintf(out, "\"%s\": %" PRIu64 ", ", name, ns);
    }
}

static void reasons(FILE *out, uint32_t bits) {
    char names[1024];
    (void)ullage_reasons_names(bits, names, sizeof names);
    (void)fputs("\"reasons\": [", out);
    const char *comma = "";
    char *unread = names;
    for (char *name; (name = strtok_r(unread, ", ", &unread)) != NULL; comma = ", ") {
        (void)fputs(comma, out);
        text(out, name);
    }
    (void)fputc(']', out);
}

static void instant(FILE *out, const char *name, const ullage_instant *at) {
    (void)fprintf(out, "\"%s\": {\"global_ns\": %" PRIu64 ", ", name, at->ns);
    bound(out, "bound_ns", at->bound_ns);
    bound(out, "hard_ns", at->hard_ns);
    reasons(out, at->reasons);
    (void)fputs("}, ", out);
}

static void messages(FILE *out, const ullage_outcome *it) {
    static const char *const stops[] = {"alike", "messages", "time"};
    (void)fprintf(out,
                  "\"offset_ns\": %" PRId64 ", \"half_ns\": %" PRIu64 ", \"sure_ns\": %" PRIu64
                  ", \"rtt_ns\": %" PRIu64 ", \"sent\": %" PRIu32 ", \"answers\": %" PRIu32
                  ", \"lost\": %" PRIu32 ", \"took_ns\": %" PRIu64 ", \"awake\": %s, ",
                  it->fix.offset_ns, it->fix.half_ns, it->fix.sure_ns, it->fix.rtt_ns,
                  it->counts.sent, it->counts.answers, it->counts.lost, it->took_ns,
                  it->standing.awake ? "true" : "false");
    member(out, "stop", stops[it->stop]);
}

static void sync(FILE *out, const char *name, const Sync *it) {
    (void)fprintf(out, "\"%s\": {", name);
    member(out, "problem", it->problem);
    if (it->done) {
        messages(out, &it->outcome);
        (void)fprintf(out, "\"last_exchange_ns\": %" PRIu64 ", ", it->last_ns);
    }
    (void)fprintf(out,
                  "\"messages\": %" PRIu32 ", \"served\": %" PRIu32 ", \"time_ns\": %" PRIu64 "}, ",
                  it->messages, it->served, it->time_ns);
}

/* `shown_ahead_ns`: at the end, MPI_Wtime was so much ahead of the root, and in between in
 * proportion to the time since `since_s`. */
static void correction(FILE *out, const Corrected *it) {
    if (!it->valid) {
        (void)fputs("\"correction\": null, ", out);
        return;
    }
    const double since_s = (double)(int64_t)(it->since_ns - shim.common.origin_ns) * 1e-9;
    (void)fprintf(
        out,
        "\"correction\": {\"since_s\": %.9f, \"length_s\": %.9f, \"shown_ahead_ns\": %" PRId64 ", ",
        since_s, (double)it->apart_ns * 1e-9, -it->drifted_ns);
    if (it->unsure_ppt == UINT64_MAX) {
        (void)fputs("\"rate_ppt\": null, \"rate_unsure_ppt\": null, ", out);
    } else {
        (void)fprintf(out, "\"rate_ppt\": %" PRId64 ", \"rate_unsure_ppt\": %" PRIu64 ", ",
                      it->rate_ppt, it->unsure_ppt);
    }
    bound(out, "residual_ns", it->checked ? it->residual_ns : UINT64_MAX);
    bound(out, "hard_ns", it->hard_ns);
    (void)fprintf(out, "\"bound_ns\": %" PRIu64 "}, ", it->bound_ns);
}

static char *line(void) {
    static const char *const ways[] = {"none", "root", "messages", "shared"};
    static const char *const topologies[] = {"flat", "two-level", "tree"};
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    char *text = NULL;
    size_t size = 0;
    int length = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        return NULL;
    }
    (void)PMPI_Get_library_version(library, &length);
    library[strcspn(library, "\n")] = '\0';
    for (char *tab; (tab = strchr(library, '\t')) != NULL;) {
        *tab = ' ';
    }
    (void)fprintf(out,
                  "{\"version\": 1, \"run\": \"%016" PRIx64 "\", \"rank\": %d, \"ranks\": %d, ",
                  shim.common.run, shim.rank, shim.size);
    member(out, "host", shim.host_name);
    member(out, "mpi", library);
    member(out, "ullage_clock", ullage_clock_version());
    member(out, "topology", topologies[shim.common.topology]);
    member(out, "way", ways[shim.way]);
    member(out, "wtime", wtime_global ? "global" : "stock");
    member(out, "why_stock", wtime_global ? NULL : shim.first.problem);
    const int stratum = ullage_global_stratum();
    if (wtime_global && stratum >= 0) {
        (void)fprintf(out, "\"stratum\": %d, ", stratum);
    } else {
        (void)fputs("\"stratum\": null, ", out);
    }
    (void)fprintf(out, "\"crowded\": %s, ", shim.crowded ? "true" : "false");
    bound(out, "origin_ns", wtime_global ? shim.common.origin_ns : UINT64_MAX);
    bound(out, "least_rtt_ns", shim.rtt_ns != 0 ? shim.rtt_ns : UINT64_MAX);
    if (wtime_global) {
        instant(out, "start", &shim.first.instant);
    } else {
        (void)fputs("\"start\": null, ", out);
    }
    sync(out, "first", &shim.first);
    if (wtime_global && shim.last.time_ns > 0) {
        instant(out, "end", &shim.last.instant);
        sync(out, "last", &shim.last);
    } else {
        (void)fputs("\"end\": null, \"last\": null, ", out);
    }
    correction(out, &shim.corrected);
    (void)fprintf(out, "\"finalized\": %s}\n", shim.finalized ? "true" : "false");
    (void)fclose(out);
    return text;
}

static void missing(const char *path, const char *problem, const char *hint) {
    (void)fprintf(stderr, "ullage: rank %d: no clock record in %s: %s; hint: %s\n", shim.rank, path,
                  problem, hint);
}

/* Why a file cannot be opened: mostly, there is no folder for it. */
static void unopened(const char *path, int error) {
    char *folder = strdup(path), *slash = folder != NULL ? strrchr(folder, '/') : NULL;
    char *problem = NULL;
    struct stat status;
    if (slash != NULL && slash != folder) {
        *slash = '\0';
        if (stat(folder, &status) != 0 && errno == ENOENT &&
            asprintf(&problem, "the folder %s does not exist", folder) < 0) {
            problem = NULL;
        }
    }
    if (problem != NULL) {
        missing(path, problem, "make it before the run");
    } else {
        missing(path, strerror(error),
                "ULLAGE_CLOCK_RECORD is a file, a directory, or a name with %r for the rank");
    }
    free(problem);
    free(folder);
}

static void save(const char *path, const char *mode, const char *lines) {
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        unopened(path, errno);
        return;
    }
    int error = fputs(lines, file) == EOF ? errno : 0;
    if (fclose(file) != 0 && error == 0) {
        error = errno;
    }
    if (error != 0) {
        (void)fprintf(
            stderr,
            "ullage: rank %d: the clock record could not be written to %s: %s; hint: what "
            "is there is not whole: make room, or name another place\n",
            shim.rank, path, strerror(error));
    }
}

/* The file of this rank alone; null if all ranks have one together. */
static char *own_path(void) {
    const char *pattern = shim.common.record, *place = strstr(pattern, "%r");
    char *path = NULL;
    struct stat status;
    if (place != NULL) {
        if (asprintf(&path, "%.*s%d%s", (int)(place - pattern), pattern, shim.rank, place + 2) <
            0) {
            path = NULL;
        }
    } else if (stat(pattern, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (asprintf(&path, "%s/rank-%d.json", pattern, shim.rank) < 0) {
            path = NULL;
        }
    }
    return path;
}

/* This rank's line; says so if there is none. */
static char *own_line(void) {
    char *own = line();
    if (own == NULL) {
        missing(shim.common.record, "no memory for this rank's line", "other ranks' may be there");
    }
    return own;
}

void record_alone(void) {
    if (shim.common.record[0] == '\0') {
        return;
    }
    char *own = own_line(), *path = own_path();
    if (own != NULL) {
        save(path != NULL ? path : shim.common.record, path != NULL ? "w" : "a", own);
    }
    free(path);
    free(own);
}

/* What rank 0 says, on all ranks. */
static bool word(bool own) {
    int agreed = own;
    return post_tell(&agreed, sizeof agreed, shim.world) && agreed;
}

static void ungathered(const char *problem) {
    missing(shim.common.record, problem, "give each rank a file of its own: a name with %r");
}

/* Where each line begins, after the lengths; the place for all, or null if there is none. */
static char *room(int *lengths) {
    int64_t total = 0;
    for (int rank = 0; rank < shim.size; rank++) {
        lengths[shim.size + rank] = (int)total;
        total += lengths[rank];
        if (total > INT32_MAX) {
            ungathered("the lines of all ranks have more than 2 GiB");
            return NULL;
        }
    }
    char *all = calloc((size_t)total + 1, 1);
    if (all == NULL) {
        ungathered("rank 0 has no memory for the lines of all ranks");
    }
    return all;
}

/* All lines, in order; only on rank 0, where `lengths` has room for two numbers per rank. */
static char *gather(const char *own, int *lengths) {
    const int length = (int)strlen(own);
    MPI_Request request = MPI_REQUEST_NULL;
    bool good = post_collective(
        PMPI_Igather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, shim.world, &request), &request);
    char *all = good && shim.rank == 0 ? room(lengths) : NULL;
    if (good && !word(all != NULL)) {
        free(all);
        return NULL;
    }
    good = good && post_collective(PMPI_Igatherv(own, length, MPI_CHAR, all, lengths,
                                                 lengths == NULL ? NULL : lengths + shim.size,
                                                 MPI_CHAR, 0, shim.world, &request),
                                   &request);
    if (!good) {
        ungathered("MPI failed while the lines were gathered");
        free(all);
        all = NULL;
    }
    return all;
}

static void write_together(void) {
    const bool first = shim.rank == 0;
    int *lengths = first ? calloc(2 * (size_t)shim.size, sizeof *lengths) : NULL;
    if (first && lengths == NULL) {
        ungathered("rank 0 has no memory for the lines of all ranks");
    }
    if (word(lengths != NULL)) {
        char *own = own_line();
        char *all = gather(own != NULL ? own : "", lengths);
        if (all != NULL) {
            save(shim.common.record, "w", all);
        }
        free(all);
        free(own);
    }
    free(lengths);
}

void record_write(void) {
    if (shim.common.record[0] == '\0') {
        return;
    }
    if (strstr(shim.common.record, "%r") != NULL) {
        record_alone();
        return;
    }
    /* Rank 0 says whether it is a directory: others may not see it. */
    char *path = own_path();
    const bool alone = word(path != NULL);
    free(path);
    if (alone) {
        record_alone();
    } else {
        write_together();
    }
}
