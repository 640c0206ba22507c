/* Preloaded beside the library: after the first thing that the ranks do together, a rank is stopped for
 * STOPPED_MS milliseconds, as SIGSTOP or a machine that swaps does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef int Duplicate(MPI_Comm, MPI_Comm *, MPI_Request *);

static void stop(long ms) {
    const struct timespec length = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    const pid_t self = getpid();
    if (fork() == 0) {
        (void)nanosleep(&length, NULL);
        (void)kill(self, SIGCONT);
        _exit(0);
    }
    (void)raise(SIGSTOP);
}

int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request) {
    const char *stopped = getenv("STOPPED_MS");
    Duplicate *there = NULL;
    *(void **)&there = dlsym(RTLD_NEXT, "PMPI_Comm_idup");
    const int code = there(comm, copy, request);
    int done = stopped == NULL;
    while (code == MPI_SUCCESS && !done) {
        (void)PMPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    if (stopped != NULL) {
        stop(atol(stopped));
    }
    return code;
}
