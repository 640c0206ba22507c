// Runs the kernel of this program: --class S|W|A|B --threads N (of each rank).
//
// Ends with 0 when the result is verified, 1 when it is not, 2 when it could not run.
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "nas.h"

enum { MOST_THREADS = 1024 };

static _Noreturn void usage(void) {
    if (comm_rank() == 0) fputs("usage: nas-KERNEL [--class S|W|A|B] [--threads N]\n", stderr);
    comm_barrier();
    comm_end();
    exit(2);
}

static enum nas_class class_of(const char *text) {
    static const char names[] = "SWAB";
    const char *letter = strlen(text) == 1 ? strchr(names, text[0]) : NULL;
    if (!letter) usage();
    return (enum nas_class)(letter - names);
}

static int threads_of(const char *text) {
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (errno || *end || end == text || n < 1 || n > MOST_THREADS) usage();
    return (int)n;
}

// As many threads as OpenMP really gives.
static int threads_given(int requested) {
    int given = 0;
    omp_set_dynamic(0);
    omp_set_num_threads(requested);
#pragma omp parallel
#pragma omp atomic
    given++;
    return given;
}

int main(int argc, char **argv) {
    enum nas_class class = CLASS_S;
    int threads = 1;
    comm_start(&argc, &argv);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) usage();
        if (strcmp(argv[i], "--class") == 0)
            class = class_of(argv[i + 1]);
        else if (strcmp(argv[i], "--threads") == 0)
            threads = threads_of(argv[i + 1]);
        else
            usage();
    }
    const char *refused = nas_kernel.refuses(class, comm_size());
    if (refused) {
        if (comm_rank() == 0)
            fprintf(stderr, "error: %s with %d ranks: %s\n", nas_kernel.name, comm_size(), refused);
        comm_barrier();
        comm_end();
        return 2;
    }
    const int given = threads_given(threads);
    if (given != threads) nas_fail("%d threads were asked for, %d were given", threads, given);

    struct nas_result result = {0};
    nas_kernel.run(class, &result);
    double verified = result.verified;
    comm_bcast(&verified, 1, 0);
    if (comm_rank() == 0) nas_report(&result, class, threads);
    comm_end();
    return verified == 1.0 ? 0 : 1;
}
