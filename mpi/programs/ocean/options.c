#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { NX = 1, NY, NZ, STEPS, SOLVER_ITERATIONS, TOLERANCE, SEED, JSON, HELP };

static const struct option NAMES[] = {
    {"nx", required_argument, NULL, NX},
    {"ny", required_argument, NULL, NY},
    {"nz", required_argument, NULL, NZ},
    {"steps", required_argument, NULL, STEPS},
    {"solver-iterations", required_argument, NULL, SOLVER_ITERATIONS},
    {"tolerance", required_argument, NULL, TOLERANCE},
    {"seed", required_argument, NULL, SEED},
    {"json", required_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

const char *options_help(void) {
    return "usage: mpirun -n RANKS ocean [options]\n"
           "A time-stepping model with an implicit solver that reads MPI_Wtime in every step.\n"
           "  --nx N --ny N --nz N    cells (128, 96, 16)\n"
           "  --steps N               time steps (100)\n"
           "  --solver-iterations N   most iterations of a solve (500)\n"
           "  --tolerance X           relative residual; 0: always all iterations (1e-10)\n"
           "  --seed N                depth and initial state (1)\n"
           "  --json FILE             result there, not on standard output\n"
           "Status: 0 verified, 1 not verified, 2 bad option.\n";
}

static bool whole(const char *name, const char *text, long least, long most, int *value, char *why,
                  size_t size) {
    char *end = NULL;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < least || number > most) {
        (void)snprintf(why, size, "--%s takes a whole number from %ld to %ld, not '%s'", name,
                       least, most, text);
        return false;
    }
    *value = (int)number;
    return true;
}

static bool tolerance(const char *text, double *value, char *why, size_t size) {
    char *end = NULL;
    const double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= 0.0 && number < 1.0)) {
        (void)snprintf(why, size, "--tolerance takes a number from 0 to below 1, not '%s'", text);
        return false;
    }
    *value = number;
    return true;
}

static bool set(Options *options, int option, const char *text, char *why, size_t size) {
    int seed = 0;
    switch (option) {
    case NX:
        return whole("nx", text, 4, 65536, &options->nx, why, size);
    case NY:
        return whole("ny", text, 4, 65536, &options->ny, why, size);
    case NZ:
        return whole("nz", text, 1, 1024, &options->nz, why, size);
    case STEPS:
        return whole("steps", text, 1, 10000000, &options->steps, why, size);
    case SOLVER_ITERATIONS:
        return whole("solver-iterations", text, 1, 1000000, &options->solver_iterations, why, size);
    case TOLERANCE:
        return tolerance(text, &options->tolerance, why, size);
    case SEED:
        if (!whole("seed", text, 0, INT_MAX, &seed, why, size)) {
            return false;
        }
        options->seed = (uint64_t)seed;
        return true;
    case JSON:
        options->json = text;
        return true;
    default:
        options->help = true;
        return true;
    }
}

bool options_parse(Options *options, int argc, char **argv, char *why, size_t size) {
    *options = (Options){.nx = 128,
                         .ny = 96,
                         .nz = 16,
                         .steps = 100,
                         .solver_iterations = 500,
                         .tolerance = 1e-10,
                         .seed = 1};
    opterr = 0;
    for (;;) {
        const int current = optind;
        const int option = getopt_long(argc, argv, "+:", NAMES, NULL);
        if (option == -1) {
            break;
        }
        if (option == '?' || option == ':') {
            (void)snprintf(why, size, option == ':' ? "%s needs a value" : "unknown option '%s'",
                           argv[current]);
            return false;
        }
        if (!set(options, option, optarg, why, size)) {
            return false;
        }
    }
    if (optind < argc) {
        (void)snprintf(why, size, "unexpected argument '%s'", argv[optind]);
        return false;
    }
    return true;
}
