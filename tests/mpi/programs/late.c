/* Preloaded beside the library: a rank comes LATE_MS milliseconds late to the first thing that the
 * ranks do together. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

typedef int Duplicate(MPI_Comm, MPI_Comm *, MPI_Request *);

int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request) {
    const char *late = getenv("LATE_MS");
    const long ms = late != NULL ? atol(late) : 0;
    struct timespec length = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    Duplicate *there = NULL;
    *(void **)&there = dlsym(RTLD_NEXT, "PMPI_Comm_idup");
    (void)nanosleep(&length, NULL);
    return there(comm, copy, request);
}
