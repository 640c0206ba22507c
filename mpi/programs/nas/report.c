// Time, memory, failure, and the block of fixed labels that NPB prints at the end.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm.h"
#include "nas.h"

#ifndef NAS_FLAGS
#define NAS_FLAGS "unknown"
#endif

enum { PAGE = 4096 };

double nas_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double nas_begin(void) {
    comm_barrier();
    return nas_now();
}

double nas_since(double begin) {
    double seconds = nas_now() - begin;
    comm_max(&seconds, 1);
    return seconds;
}

void nas_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    comm_abort(2);
}

void *nas_allocate(size_t n, size_t size) {
    void *memory = NULL;
    if (size && n > (SIZE_MAX - PAGE) / size) nas_fail("%zu x %zu bytes are too many", n, size);
    const size_t bytes = (n * size + PAGE - 1) / PAGE * PAGE;
    if (posix_memalign(&memory, PAGE, bytes ? bytes : PAGE) != 0)
        nas_fail("no memory for %zu bytes", bytes);
    return memory;
}

void nas_detail(struct nas_result *result, const char *format, ...) {
    const size_t used = strlen(result->detail), room = sizeof result->detail - used;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->detail + used, room, format, arguments);
    va_end(arguments);
}

bool nas_agrees(struct nas_result *result, const char *name, double value, double reference,
                double tolerance) {
    const double error = fabs((value - reference) / reference);
    nas_detail(result, " %-8s = %22.14e, reference %22.14e, error %9.2e\n", name, value, reference,
               error);
    return error <= tolerance; // false for what is not a number
}

static void text(const char *label, const char *value) { printf(" %-16s= %24s\n", label, value); }

static void count(const char *label, int value) { printf(" %-16s= %24d\n", label, value); }

static void number(const char *label, double value, int digits) {
    printf(" %-16s= %24.*f\n", label, digits, value);
}

void nas_report(const struct nas_result *result, enum nas_class class, int threads) {
    const double rate = result->operations / result->seconds * 1e-6;
    const int workers = comm_size() * threads;
    printf("%s\n %s Benchmark Completed.\n", result->detail, nas_kernel.name);
    text("Class", (const char *[]){"S", "W", "A", "B"}[class]);
    text("Size", result->size);
    count("Iterations", result->iterations);
    number("Time in seconds", result->seconds, 6);
#ifdef NAS_MPI
    count("Total processes", comm_size());
#endif
    count("Total threads", workers);
    number("Mop/s total", rate, 2);
#ifdef NAS_MPI
    number("Mop/s/process", rate / comm_size(), 2);
#else
    number("Mop/s/thread", rate / threads, 2);
#endif
    text("Operation type", nas_kernel.operation);
    text("Verification", result->verified ? "SUCCESSFUL" : "UNSUCCESSFUL");
    puts("\n Compile options:");
    puts("    CC           = gcc " __VERSION__);
#ifdef NAS_MPI
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    for (char *tab = version; (tab = strchr(tab, '\t'));) *tab = ' '; // MPICH has one
    printf("    MPI          = %s\n", version);
#endif
    puts("    CFLAGS       = " NAS_FLAGS);
    fflush(stdout);
}
