/* MPI ping-pong: the time of a message between two ranks, by its size.
 *
 * Sizes are the powers of two from --min-bytes to --max-bytes. For each size: a barrier, --warmups
 * exchanges that do not count, then --repetitions that are timed one by one: rank 0 sends, rank 1
 * answers with as much. A message's one-way time is half of that. --bytes-per-size makes fewer of
 * both where the messages are large; 0 is no limit. The protocol is that of `mpi4py.bench pingpong`
 * (https://github.com/mpi4py/mpi4py, src/mpi4py/bench.py): blocking MPI_Send and MPI_Recv, one
 * buffer to send from and another to receive into.
 *
 * Both buffers are malloc's, as those of mpi4py and NetPIPE are: a large one begins 16 bytes into a
 * page, and at its beginning messages from 64 KiB on would be 2 to 3 % quicker. They are written
 * before each size, so that their pages are there; what was received is compared byte by byte after it. With --device the bytes that this network device carried
 * meanwhile are told, as the kernel counts them for rank 0.
 *
 * Status: 0, 1 when a message was not what was sent, 2 for bad options; MPI's own for its errors.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../give_up.h"

enum { RANKS = 2, LEAST_REPETITIONS = 3, MOST_REPETITIONS = 1000000, TAG = 0 };
static const int64_t MOST_BYTES = (int64_t)1 << 30; /* MPI counts in int */

struct options {
    int64_t min_bytes, max_bytes, warmups, repetitions, bytes_per_size;
    const char *device;
};

struct buffers {
    unsigned char *out, *in;
};

/* Seconds of one message one way, over the repetitions of a size. */
struct times {
    double minimum, median, mean, stdev;
};

struct traffic {
    uint64_t received, sent;
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* How often, for messages of this size. */
static int64_t repetitions(const struct options *options, int64_t bytes) {
    if (options->bytes_per_size == 0) return options->repetitions;
    int64_t enough = most(options->bytes_per_size / bytes, LEAST_REPETITIONS);
    return least(enough, options->repetitions);
}

/* As many of the warm-ups as of the repetitions, rounded down, but one. */
static int64_t warmups(const struct options *options, int64_t bytes) {
    int64_t share = options->warmups * repetitions(options, bytes) / options->repetitions;
    return most(share, least(options->warmups, 1));
}

/* The eight bytes at a place of what a rank sends at a size: splitmix64, as published by
 * S. Vigna, https://prng.di.unimi.it/splitmix64.c */
static uint64_t pattern(uint64_t place, uint64_t bytes, uint64_t rank) {
    uint64_t z = place * 0x9e3779b97f4a7c15u + bytes * 2 + rank;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* What is sent, and anything but what will be received. */
static void fill(struct buffers buffers, int64_t bytes, int rank) {
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t mine = pattern((uint64_t)i, (uint64_t)bytes, (uint64_t)rank);
        uint64_t wrong = ~pattern((uint64_t)i, (uint64_t)bytes, (uint64_t)(1 - rank));
        memcpy(buffers.out + i, &mine, (size_t)least(8, bytes - i));
        memcpy(buffers.in + i, &wrong, (size_t)least(8, bytes - i));
    }
}

static bool arrived(const unsigned char *in, int64_t bytes, int rank) {
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t want = pattern((uint64_t)i, (uint64_t)bytes, (uint64_t)(1 - rank));
        if (memcmp(in + i, &want, (size_t)least(8, bytes - i)) != 0) return false;
    }
    return true;
}

/* One exchange; seconds of a message one way. */
static double exchange(struct buffers buffers, int bytes, int rank) {
    double began = MPI_Wtime();
    if (rank == 0) {
        MPI_Send(buffers.out, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(buffers.in, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffers.in, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffers.out, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - began) / 2;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct times summary(double *samples, int64_t count) {
    double sum = 0, squares = 0;
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    for (int64_t i = 0; i < count; i++) sum += samples[i];
    double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) squares += (samples[i] - mean) * (samples[i] - mean);
    return (struct times){
        .minimum = samples[0],
        .median = (samples[(count - 1) / 2] + samples[count / 2]) / 2,
        .mean = mean,
        .stdev = sqrt(squares / (double)(count - 1)),
    };
}

/* All exchanges of one size, and rank 0's line about them. */
static void measure(const struct options *options, struct buffers buffers, double *samples,
                    int64_t bytes, int rank) {
    int64_t before = warmups(options, bytes), count = repetitions(options, bytes);
    fill(buffers, bytes, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int64_t i = 0; i < before; i++) exchange(buffers, (int)bytes, rank);
    for (int64_t i = 0; i < count; i++) samples[i] = exchange(buffers, (int)bytes, rank);
    if (!arrived(buffers.in, bytes, rank)) stop(1, "a message is not what was sent");
    if (rank != 0) return;
    struct times times = summary(samples, count);
    printf("size %" PRId64 " warmups %" PRId64 " repetitions %" PRId64
           " minimum_ns %.3f median_ns %.3f mean_ns %.3f stdev_ns %.3f\n",
           bytes, before, count, times.minimum * 1e9, times.median * 1e9, times.mean * 1e9,
           times.stdev * 1e9);
}

/* What the device has carried so far, in this rank's network namespace (proc(5), net/dev). */
static struct traffic carried(const char *device) {
    struct traffic traffic = {0, 0};
    char line[512], name[64];
    FILE *file = fopen("/proc/self/net/dev", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, " %63[^:]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, name,
                   &traffic.received, &traffic.sent) == 3 &&
            strcmp(name, device) == 0) {
            fclose(file);
            return traffic;
        }
    }
    stop(2, "there is no such network device");
    return traffic;
}

static int64_t number(const char *text, int64_t low, int64_t high) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high) {
        fprintf(stderr, "error: %.40s is not a number from %" PRId64 " to %" PRId64 "\n", text, low,
                high);
        give_up(2);
    }
    return value;
}

static struct options read_options(int argc, char **argv) {
    static const struct option names[] = {
        {"min-bytes", required_argument, NULL, 'm'},
        {"max-bytes", required_argument, NULL, 'n'},
        {"warmups", required_argument, NULL, 'w'},
        {"repetitions", required_argument, NULL, 'r'},
        {"bytes-per-size", required_argument, NULL, 'b'},
        {"device", required_argument, NULL, 'd'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {1, MOST_BYTES, 30, 100, 0, NULL};
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (option == 'm')
            options.min_bytes = number(optarg, 1, MOST_BYTES);
        else if (option == 'n')
            options.max_bytes = number(optarg, 1, MOST_BYTES);
        else if (option == 'w')
            options.warmups = number(optarg, 0, MOST_REPETITIONS);
        else if (option == 'r')
            options.repetitions = number(optarg, 2, MOST_REPETITIONS);
        else if (option == 'b')
            options.bytes_per_size = number(optarg, 0, INT64_MAX);
        else if (option == 'd')
            options.device = optarg;
        else
            stop(2, "no such option");
    }
    if (optind != argc || (options.min_bytes & (options.min_bytes - 1)) != 0)
        stop(2, "--min-bytes must be a power of two, and nothing may follow the options");
    return options;
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) stop(2, "there is not enough memory");
    return memory;
}

static void print_library(void) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n")] = '\0';
    for (char *at = library; *at; at++) *at = *at == '\t' ? ' ' : *at;
    printf("library: %s\n", library);
}

static void run(const struct options *options, int rank) {
    size_t bytes = (size_t)options->max_bytes;
    struct buffers buffers = {allocate(bytes), allocate(bytes)};
    double *samples = allocate((size_t)options->repetitions * sizeof *samples);
    bool counted = rank == 0 && options->device;
    struct traffic before = counted ? carried(options->device) : (struct traffic){0, 0};
    for (int64_t size = options->min_bytes; size <= options->max_bytes; size *= 2)
        measure(options, buffers, samples, size, rank);
    if (counted) {
        struct traffic after = carried(options->device);
        printf("device %s sent %" PRIu64 " received %" PRIu64 "\n", options->device,
               after.sent - before.sent, after.received - before.received);
    }
    free(buffers.out);
    free(buffers.in);
    free(samples);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct options options = read_options(argc, argv);
    if (ranks != RANKS) stop(2, "a ping-pong is between two ranks");
    if (rank == 0) print_library();
    run(&options, rank);
    if (rank == 0) printf("every message arrived as it was sent\n");
    MPI_Finalize();
    return 0;
}
