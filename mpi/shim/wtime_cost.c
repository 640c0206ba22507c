/* What MPI_Wtime costs: rounds of many calls, each as nanoseconds per call on its own line, so that
 * who runs this with and without the preload can pair rounds; the first word is the clock's.
 *
 *   wtime_cost [ROUNDS [CALLS]] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static long number(int argc, char **argv, int at, long otherwise) {
    char *end = NULL;
    const long number = argc > at ? strtol(argv[at], &end, 10) : otherwise;
    if (number < 1 || (end != NULL && *end != '\0')) {
        (void)fprintf(stderr, "wtime_cost [ROUNDS [CALLS]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return number;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const long rounds = number(argc, argv, 1, 20), calls = number(argc, argv, 2, 200000);
    volatile double last = 0;
    for (long round = 0; round < rounds; round++) {
        const double start = seconds();
        for (long call = 0; call < calls; call++) {
            last = MPI_Wtime();
        }
        const double took = seconds() - start;
        printf("%.3f\n", took / (double)calls * 1e9);
    }
    (void)last;
    return MPI_Finalize();
}
