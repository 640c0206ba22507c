/* The command line. */
#ifndef OCEAN_OPTIONS_H
#define OCEAN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int nx, ny, nz; /* cells of the whole domain */
    int steps;
    int solver_iterations; /* most iterations of one solve */
    double tolerance;      /* relative residual; 0: always all iterations */
    uint64_t seed;
    const char *json; /* NULL: standard output */
    bool help;
} Options;

/* Reads argv. False: `why` says what is wrong. */
bool options_parse(Options *options, int argc, char **argv, char *why, size_t size);

/* The text of --help. */
const char *options_help(void);

#endif
