/* A program with messages, receives from anywhere included, whose output says whether they were its
 * own, and that ends in many ways.
 *
 *   work [WAY]
 *   quiet    calls nothing but MPI_Wtime between the beginning and the end
 *   killed   rank 1 dies
 *   return   no rank calls MPI_Finalize
 *   early    asks for the time before MPI_Init and after MPI_Finalize */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Until all output is out: launchers kill the others of a rank that leaves. */
static const struct timespec enough = {.tv_nsec = 500000000};

static void messages(int rank, int ranks) {
    int own = rank * rank, sum = 0, other = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Sendrecv(&own, 1, MPI_INT, (rank + 1) % ranks, 7, &other, 1, MPI_INT, MPI_ANY_SOURCE,
                 MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d sum %d other %d\n", rank, sum, other);
    (void)fflush(stdout);
}

static int backward(double *last, long calls) {
    int found = 0;
    for (long call = 0; call < calls; call++) {
        const double now = MPI_Wtime();
        found += now < *last;
        *last = now;
    }
    return found;
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    const int early = strcmp(way, "early") == 0;
    int rank = 0, ranks = 0, found = 0, *global = NULL;
    double last = 0;
    if (early) {
        (void)backward(&last, 10);
    }
    MPI_Init(&argc, &argv);
    last = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(way, "quiet") == 0) {
        const int back = backward(&last, 1000000);
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &global, &found);
        (void)printf("rank %d backward %d\n", rank, back);
        return MPI_Finalize();
    }
    messages(rank, ranks);
    if (strcmp(way, "killed") == 0) {
        if (rank == 1) {
            (void)nanosleep(&enough, NULL);
            (void)raise(SIGKILL);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strcmp(way, "return") == 0) {
        (void)nanosleep(&enough, NULL);
        return 0;
    }
    const int back = backward(&last, 1000);
    const int code = MPI_Finalize();
    if (early) {
        printf("rank %d backward %d\n", rank, back + backward(&last, 1000));
    }
    return code;
}
