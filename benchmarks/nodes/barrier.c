/* When each rank leaves a barrier, by the clock that all of them share. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 20 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec now;
        MPI_Barrier(MPI_COMM_WORLD);
        clock_gettime(CLOCK_MONOTONIC, &now);
        printf("%d %lld\n", round, now.tv_sec * 1000000000LL + now.tv_nsec);
    }
    return MPI_Finalize();
}
