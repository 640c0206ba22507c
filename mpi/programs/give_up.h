/* How a program of ours ends its whole job after it has said why. */
#ifndef GIVE_UP_H
#define GIVE_UP_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Does not return. MPICH's launcher may end before it has passed on what was just printed, so it is
 * given a moment. */
static inline void give_up(int status) {
    const struct timespec moment = {.tv_nsec = 300000000};
    (void)nanosleep(&moment, NULL);
    (void)MPI_Abort(MPI_COMM_WORLD, status);
}

_Noreturn static inline void stop(int status, const char *message) {
    (void)fprintf(stderr, "error: %s\n", message);
    give_up(status);
    exit(status);
}

#endif
