#include "beffio.h"

#include <stdio.h>
#include <stdlib.h>

static void buffer_make(Run *run) {
    const int64_t least = 4 * MIB, largest = largest_chunk(run->options.memory);
    run->capacity = largest > least ? largest : least;
    run->buffer = aligned_alloc(4096, (size_t)run->capacity);
    if (run->buffer == NULL) {
        (void)fprintf(stderr, "error: no %lld bytes of memory\n", (long long)run->capacity);
        give_up(IO_FAILED);
    }
}

static int work(Run *run) {
    (void)MPI_Comm_size(MPI_COMM_WORLD, &run->ranks);
    patterns_make(run);
    buffer_make(run);
    access_remove(run);
    measure_all(run);
    access_remove(run);
    if (run->rank == 0) {
        report_print(run);
    }
    free(run->buffer);
    return OK;
}

int main(int argc, char **argv) {
    static Run run;
    char why[512] = "";
    int status = OK;
    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    if (!options_parse(&run.options, argc, argv, why, sizeof why)) {
        if (run.rank == 0) {
            (void)fprintf(stderr, "error: %s\nhint: beffio --help\n", why);
        }
        status = BAD_OPTION;
    } else if (run.options.help) {
        if (run.rank == 0) {
            (void)fputs(options_help(), stdout);
        }
    } else {
        status = work(&run);
    }
    (void)MPI_Finalize();
    return status;
}
