/* MPI_Wtime and what belongs to it. */
#include "shim.h"

bool wtime_global = false;

#define LIKELY(x) __builtin_expect(!!(x), 1)

/* Seconds since the root's MPI_Init; MPI's own before this rank's, and where there is no global
 * time. */
EXPORT double MPI_Wtime(void) {
    return LIKELY(wtime_global) ? ullage_global_seconds() : PMPI_Wtime();
}

/* The clock counts nanoseconds. */
EXPORT double MPI_Wtick(void) { return wtime_global ? 1e-9 : PMPI_Wtick(); }

/* What says that a clock may be off by more than its bound. */
static const uint32_t doubtful = ULLAGE_UNSYNCHRONISED_CORES | ULLAGE_UNMEASURED |
                                 ULLAGE_RATE_UNKNOWN | ULLAGE_DISTRUSTED | ULLAGE_STEPPED |
                                 ULLAGE_SUSPENDED | ULLAGE_MOVED | ULLAGE_ADRIFT;

/* "The variation is smaller than half a zero-byte round trip" (MPI 4.0, 9.1.2), which is taken for
 * half the least round trip that any rank has measured. Two ranks may be off in opposite directions,
 * unless one of them is the root. */
bool wtime_is_global(void) {
    ullage_instant now;
    const uint64_t threshold_ns =
        shim.common.threshold_ns != 0 ? shim.common.threshold_ns : shim.rtt_ns / 2;
    if (!wtime_global || !shim.everybody || ullage_global_now(&now) != ULLAGE_OK ||
        (now.reasons & doubtful) != 0) {
        return false;
    }
    if (shim.size == 1) {
        return true;
    }
    const uint64_t age_ns = now.ns > shim.bound_at_ns ? now.ns - shim.bound_at_ns : 0;
    const double grown_ns = (double)shim.growth_ns * ((double)age_ns * 1e-9);
    double most_ns = (double)shim.bound_ns + grown_ns;
    most_ns = most_ns < (double)now.bound_ns ? (double)now.bound_ns : most_ns;
    return (shim.size > 2 ? 2 : 1) * most_ns < (double)threshold_ns;
}

/* Whether this rank's clock is what it says, at the start. */
bool wtime_doubtful(uint32_t reasons) { return (reasons & doubtful) != 0; }

/* Constants, so that a pointer that was handed out stays true. */
static int yes = 1, no = 0;

EXPORT int MPI_Comm_get_attr(MPI_Comm comm, int key, void *value, int *flag) {
    const int code = PMPI_Comm_get_attr(comm, key, value, flag);
    if (code == MPI_SUCCESS && key == MPI_WTIME_IS_GLOBAL && wtime_global && *flag) {
        *(int **)value = wtime_is_global() ? &yes : &no;
    }
    return code;
}

/* Deprecated since MPI 2, but there. */
EXPORT int MPI_Attr_get(MPI_Comm comm, int key, void *value, int *flag) {
    return MPI_Comm_get_attr(comm, key, value, flag);
}
