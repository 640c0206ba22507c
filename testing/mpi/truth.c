/* What MPI_Wtime says, beside the processor's counter, which all ranks of this host have in common:
 * the truth that each rank's time is compared with. Every 5 ms each rank writes a line to FILE.RANK:
 * the counter before, MPI_Wtime, the counter after, and whether the time is global.
 *
 *   truth FILE MILLISECONDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

static unsigned long long counter(void) {
    unsigned int processor;
    return __rdtscp(&processor);
}

static int global(void) {
    int *value = NULL, flag = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
    return flag ? *value : -1;
}

int main(int argc, char **argv) {
    int rank = 0;
    char path[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)snprintf(path, sizeof path, "%s.%d", argv[1], rank);
    FILE *out = fopen(path, "w");
    const int steps = atoi(argv[2]) / 5 + 1;
    for (int step = 0; step < steps && out != NULL; step++) {
        unsigned long long before = 0, after = ~0ULL;
        double seconds = 0;
        /* The narrowest of some: in a wide one, somebody else had the processor. */
        for (int attempt = 0; attempt < 20; attempt++) {
            const unsigned long long start = counter();
            const double now = MPI_Wtime();
            const unsigned long long end = counter();
            if (end - start < after - before) {
                before = start;
                seconds = now;
                after = end;
            }
        }
        (void)fprintf(out, "%llu %.12f %llu %d\n", before, seconds, after, global());
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    (void)fclose(out);
    return MPI_Finalize();
}
