/* The beginning and the end of the program's MPI. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Shim shim;

/* How deep in MPI_Init this is: Fortran's may call C's. */
static int depth;

void complain(const char *problem, const char *hint) {
    char who[32] = "";
    if (shim.rank >= 0) {
        (void)snprintf(who, sizeof who, "rank %d: ", shim.rank);
    }
    (void)fprintf(stderr, "ullage: %sMPI_Wtime is MPI's own, not global: %s; hint: %s\n", who,
                  problem, hint);
}

/* This process's rank as its launcher has it, where MPI cannot be asked; -1 if it does not say. */
static int launched_rank(void) {
#ifdef MPICH
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
#else
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK"};
#endif
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        const char *value = getenv(names[at]);
        char *end = NULL;
        const long number = value != NULL ? strtol(value, &end, 10) : -1;
        if (value != NULL && end != value && *end == '\0' && number >= 0 && number <= INT32_MAX) {
            return (int)number;
        }
    }
    return -1;
}

/* The library of another MPI, preloaded by mistake, must not touch its handles. */
static bool fits(void) {
#ifdef MPICH
    static const char name[] = "MPICH";
#else
    static const char name[] = "Open MPI";
#endif
    char version[MPI_MAX_LIBRARY_VERSION_STRING > 8192 ? MPI_MAX_LIBRARY_VERSION_STRING : 8192] =
        "";
    int length = 0;
    return PMPI_Get_library_version(version, &length) == MPI_SUCCESS &&
           strstr(version, name) != NULL;
}

/* Looking at the machine takes 25 ms: best while nobody waits. */
void init_before(void) {
    if (depth++ == 0) {
        (void)ullage_clock_ordered();
    }
}

static int64_t capped(uint64_t ns) { return ns < INT64_MAX ? (int64_t)ns : INT64_MAX; }

/* What all ranks know of all: the worst of each. Signed, for MPICH 4.0 compares MPI_UINT64_T so. */
static void agree(void) {
    enum { BOUND, GROWTH, AGE, SHORTNESS, DOUBTS, COUNT };
    int64_t own[COUNT], all[COUNT];
    ullage_instant now, later;
    (void)ullage_global_now(&now);
    (void)ullage_global_at(now.local_ns + 1000000000, &later);
    const bool measured = shim.way != ROOT && shim.first.done;
    own[BOUND] = capped(now.bound_ns);
    own[GROWTH] = capped(later.bound_ns - now.bound_ns);
    own[AGE] = INT64_MAX - capped(now.ns);
    own[SHORTNESS] = measured ? INT64_MAX - capped(shim.first.outcome.fix.rtt_ns) : 0;
    own[DOUBTS] = shim.way == NOTHING || wtime_doubtful(now.reasons);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!post_collective(
            PMPI_Iallreduce(own, all, COUNT, MPI_INT64_T, MPI_MAX, shim.world, &request),
            &request)) {
        return;
    }
    shim.bound_ns = (uint64_t)all[BOUND];
    shim.growth_ns = (uint64_t)all[GROWTH];
    shim.bound_at_ns = (uint64_t)(INT64_MAX - all[AGE]);
    shim.rtt_ns = all[SHORTNESS] > 0 ? (uint64_t)(INT64_MAX - all[SHORTNESS]) : 0;
    shim.everybody = all[DOUBTS] == 0;
}

void init_after(void) {
    int length = 0;
    if (--depth > 0 || shim.pid != 0) {
        return;
    }
    shim.pid = (int)getpid();
    if (!fits()) {
        shim.rank = launched_rank();
        shim.first.problem = "this library was built for another MPI";
        complain(shim.first.problem, "preload the one of this program's MPI");
        return;
    }
    (void)PMPI_Get_processor_name(shim.host_name, &length);
    const uint64_t start_ns = ullage_clock_ordered();
    if (tree_open() && tree_first()) {
        agree();
        (void)ullage_global_now(&shim.first.instant);
        if (shim.way != NOTHING) {
            ullage_global_origin(shim.common.origin_ns);
            wtime_global = true;
        }
    }
    shim.first.time_ns = ullage_clock_ordered() - start_ns;
    if (!wtime_global) {
        complain(shim.first.problem != NULL ? shim.first.problem : "MPI failed",
                 "preload the library in all ranks; the others' records say more");
    }
}

void finalize_before(void) {
    if (shim.pid == 0 || shim.finalized) {
        return;
    }
    shim.finalized = true;
    /* All ranks must have come: nobody is served by a rank that still computes. */
    if (shim.ways != NULL && post_barrier()) {
        const uint64_t start_ns = ullage_clock_ordered();
        (void)ullage_global_now(&shim.last.instant);
        tree_last();
        shim.last.time_ns = ullage_clock_ordered() - start_ns;
        record_write();
    } else {
        record_alone();
    }
}

EXPORT int MPI_Init(int *argc, char ***argv) {
    init_before();
    const int code = PMPI_Init(argc, argv);
    if (code == MPI_SUCCESS) {
        init_after();
    }
    return code;
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    init_before();
    const int code = PMPI_Init_thread(argc, argv, required, provided);
    if (code == MPI_SUCCESS) {
        init_after();
    }
    return code;
}

EXPORT int MPI_Finalize(void) {
    finalize_before();
    return PMPI_Finalize();
}

/* Who never calls MPI_Finalize has a record of the beginning. Not a fork's. */
__attribute__((destructor)) static void leave(void) {
    if (shim.pid == (int)getpid() && !shim.finalized) {
        record_alone();
    }
}
