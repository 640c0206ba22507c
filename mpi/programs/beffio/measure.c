/* Writes the patterns by time, with every rank of one mind, and rewrites and reads what was written.
 *
 * A pattern is done in rounds. The clock runs from a barrier until every rank has made its calls of
 * the round; data are made before it and compared after it, while no clock runs. How many calls the
 * next round has follows from figures that are equal on all ranks.
 */
#include "beffio.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>

/* Without spinning: a rank that waits must not take the CPU from one that still works. */
static void await(MPI_Request request) {
    for (int done = 0; !done;) {
        (void)MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            (void)sched_yield();
        }
    }
}

static void together(void) {
    MPI_Request request;
    (void)MPI_Ibarrier(MPI_COMM_WORLD, &request);
    await(request);
}

static double begin(void) {
    together();
    return MPI_Wtime();
}

/* Seconds from when the first rank began until the last one was through; the same on all. The
 * second barrier counts: where ranks share a CPU, one may begin when the other has ended. */
static double end(double began) {
    MPI_Request request;
    together();
    double own = MPI_Wtime() - began, longest = 0;
    (void)MPI_Iallreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    await(request);
    return longest;
}

static void verify(const Run *run, const Pattern *p, int64_t call, const void *memory) {
    int64_t where = 0;
    if (!data_right(run, p, call, memory, &where)) {
        (void)fprintf(stderr,
                      "error: rank %d read wrong data: type %d, chunks of %lld bytes, call "
                      "%lld, byte %lld of the file\n",
                      run->rank, p->type, (long long)p->chunk, (long long)call, (long long)where);
        give_up(WRONG_DATA);
    }
}

/* Calls that are still to be made: those that are not yet repeated, or, where time says, as many as by the
 * pace so far will end within the pattern's share. 0 ends it. */
static double remaining(const Run *run, const Pattern *p, const Done *done, int64_t repeated) {
    if (repeated != BY_TIME) {
        return (double)(repeated - done->calls);
    }
    const double left = patterns_share(run, p) - done->seconds;
    return left > 0 ? floor(left * (double)done->calls / done->seconds) : 0;
}

/* Calls of the next round: at most twice as many as in the last one, and as fit into memory. */
static int64_t next_round(const Run *run, const Pattern *p, const Done *done, int64_t last,
                          int64_t repeated) {
    const int64_t room = run->capacity / p->call, twice = 2 * last;
    const int64_t calls = twice < room ? twice : room;
    const double still = remaining(run, p, done, repeated);
    return still < (double)calls ? (int64_t)still : calls;
}

static void round_of(const Run *run, int index, int method, int64_t calls, Done *done,
                     MPI_File file) {
    const Pattern *p = &run->patterns[index];
    const int64_t first = done->calls;
    for (int64_t i = 0; i < calls && method != READ; i++) {
        data_fill(run, p, first + i, method == REWRITE, run->buffer + i * p->call);
    }
    const double began = begin();
    for (int64_t i = 0; i < calls; i++) {
        access_call(run, p, method, first + i, run->buffer + i * p->call, file);
    }
    done->seconds += end(began);
    done->calls += calls;
    for (int64_t i = 0; i < calls && method == READ; i++) {
        verify(run, p, first + i, run->buffer + i * p->call);
    }
}

/* The first writing of types 0 to 2 goes on while one more call fits into its time, and is one call
 * at least; all else repeats what was counted. */
static void pattern(Run *run, int index, int method, MPI_File file) {
    const Pattern *p = &run->patterns[index];
    Done *done = &run->done[method][index];
    const int64_t repeated = method == WRITE ? p->counted : run->done[WRITE][index].calls;
    for (int64_t calls = 1; calls > 0; calls = next_round(run, p, done, calls, repeated)) {
        round_of(run, index, method, calls, done, file);
    }
    if (method != READ) {
        const double began = begin();
        access_sync(run, file);
        done->seconds += end(began);
    }
}

/* One file from open to close. */
static void type_of(Run *run, int type, int method) {
    double *handling = &run->handling[method][type];
    MPI_File file;
    if (method == WRITE) {
        patterns_place(run, type);
    }
    double began = begin();
    access_open(run, type, method, &file);
    *handling += end(began);
    for (int i = 0; i < run->count; i++) {
        if (run->patterns[i].type == type && run->patterns[i].counted != ABSENT) {
            if (method == WRITE) {
                patterns_follow(run, type);
            }
            began = begin();
            access_view(run, &run->patterns[i], file);
            *handling += end(began);
            pattern(run, i, method, file);
        }
    }
    began = begin();
    access_close(run, &file);
    *handling += end(began);
}

void measure_all(Run *run) {
    const double began = begin();
    for (int method = WRITE; method < METHODS; method++) {
        for (int type = 0; type < TYPES; type++) {
            if (run->options.types[type]) {
                type_of(run, type, method);
            }
        }
    }
    run->wall = end(began);
}
