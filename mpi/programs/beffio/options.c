#include "beffio.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIME = 1, MEMORY, DIRECTORY, WHICH, NOSHARED, SEED, HELP };

static const struct option NAMES[] = {
    {"time", required_argument, NULL, TIME},
    {"memory", required_argument, NULL, MEMORY},
    {"directory", required_argument, NULL, DIRECTORY},
    {"types", required_argument, NULL, WHICH},
    {"noshared", no_argument, NULL, NOSHARED},
    {"seed", required_argument, NULL, SEED},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

const char *options_help(void) {
    return "usage: mpirun -n RANKS beffio --time T --memory BYTES --directory DIR [options]\n"
           "Effective I/O bandwidth (b_eff_io) over MPI-IO. The result is JSON.\n"
           "  --time T         seconds scheduled for all of it; by the rules at least 1800\n"
           "  --memory BYTES   memory of a process: the largest chunk is a 128th of it, or 2 MiB\n"
           "  --directory DIR  where the files are, seen by all ranks\n"
           "  --types LIST     pattern types (0,1,2,3,4); 3 and 4 need 0 to 2\n"
           "  --noshared       type 1 without shared file pointers\n"
           "  --seed N         of the data (1)\n"
           "Status: 0 done and verified, 1 a call failed, 2 bad option, 3 wrong data read.\n";
}

static bool whole(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *value >= least &&
           *value <= most;
}

static bool seconds(const char *text, double *value) {
    char *end = NULL;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value) && *value > 0 && *value <= 86400;
}

static bool types(const char *text, bool *chosen) {
    memset(chosen, 0, TYPES * sizeof *chosen);
    for (;; text += 2) {
        if (text[0] < '0' || text[0] >= '0' + TYPES || chosen[text[0] - '0']) {
            return false;
        }
        chosen[text[0] - '0'] = true;
        if (text[1] != ',') {
            return text[1] == '\0';
        }
    }
}

static bool set(Options *o, int option, const char *text) {
    uint64_t number = 0;
    switch (option) {
    case TIME:
        return seconds(text, &o->time);
    case MEMORY: /* so that the bytes of a call are an int */
        if (!whole(text, 1, UINT64_C(1) << 37, &number)) {
            return false;
        }
        o->memory = (int64_t)number;
        return true;
    case DIRECTORY:
        o->directory = text;
        return text[0] != '\0' && strlen(text) < 3000;
    case WHICH:
        return types(text, o->types);
    case NOSHARED:
        o->noshared = true;
        return true;
    case SEED:
        return whole(text, 0, INT64_MAX, &o->seed);
    default:
        o->help = true;
        return true;
    }
}

static const char *lacks(const Options *o) {
    if (!(o->time > 0) || o->memory == 0 || o->directory == NULL) {
        return "--time, --memory and --directory are all needed";
    }
    if ((o->types[SEGMENTED] || o->types[SEGMENTED_COLLECTIVE]) &&
        !(o->types[SCATTER] && o->types[SHARED] && o->types[SEPARATE])) {
        return "types 3 and 4 repeat their calls as types 0 to 2 did";
    }
    return NULL;
}

bool options_parse(Options *options, int argc, char **argv, char *why, size_t size) {
    *options = (Options){.seed = 1, .types = {true, true, true, true, true}};
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
        if (!set(options, option, optarg)) {
            (void)snprintf(why, size, "not a possible value: %s '%s'", argv[current], optarg);
            return false;
        }
    }
    if (optind < argc) {
        (void)snprintf(why, size, "unexpected argument '%s'", argv[optind]);
        return false;
    }
    const char *lack = options->help ? NULL : lacks(options);
    if (lack != NULL) {
        (void)snprintf(why, size, "%s", lack);
    }
    return lack == NULL;
}
