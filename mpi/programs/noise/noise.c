/* noise: a daemon that wakes at a fixed period and keeps a core busy for a fixed time, as one does
 * that resynchronises a clock. What it really did is printed as JSON when it ends, by itself or by
 * SIGINT or SIGTERM.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, FAILED = 1, BAD_OPTION = 2 };

#define MICROSECOND INT64_C(1000)
#define SECOND INT64_C(1000000000)
#define MOST_BURSTS INT64_C(10000000)

typedef struct {
    long period_us, length_us, cpu, seconds;
    long fifo; /* SCHED_FIFO priority; 0: the usual scheduler */
} Options;

typedef struct {
    int64_t *lengths; /* wall-clock, ns */
    int64_t bursts;
    int64_t overruns; /* periods that began before the last burst ended: left out */
    int64_t busy;     /* processor time of all bursts, ns */
} Done;

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

static int refuse(const char *why, const char *argument) {
    (void)fprintf(stderr,
                  "noise: error: %s%s\n"
                  "hint: noise --period-us P --length-us L --cpu C --seconds S"
                  " [--priority fifo:N]\n",
                  why, argument);
    return BAD_OPTION;
}

static bool whole(const char *text, long least, long most, long *value) {
    char *end = NULL;
    errno = 0;
    *value = strtol(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *value >= least && *value <= most;
}

static bool set(Options *o, int option, const char *text) {
    switch (option) {
    case 'p':
        return whole(text, 10, 3600000000L, &o->period_us);
    case 'l':
        return whole(text, 1, 3600000000L, &o->length_us);
    case 'c':
        return whole(text, 0, CPU_SETSIZE - 1, &o->cpu);
    case 's':
        return whole(text, 1, 86400, &o->seconds);
    default:
        return strncmp(text, "fifo:", 5) == 0 && whole(text + 5, 1, 99, &o->fifo);
    }
}

static int parse(Options *o, int argc, char **argv) {
    static const struct option NAMES[] = {
        {"period-us", required_argument, NULL, 'p'}, {"length-us", required_argument, NULL, 'l'},
        {"cpu", required_argument, NULL, 'c'},       {"seconds", required_argument, NULL, 's'},
        {"priority", required_argument, NULL, 'f'},  {NULL, 0, NULL, 0}};
    *o = (Options){.cpu = -1};
    opterr = 0;
    for (;;) {
        const int current = optind, option = getopt_long(argc, argv, "+:", NAMES, NULL);
        if (option == -1) {
            break;
        }
        if (option == '?' || option == ':') {
            return refuse(option == ':' ? "a value is missing after " : "unknown option ",
                          argv[current]);
        }
        if (!set(o, option, optarg)) {
            return refuse("not a possible value: ", argv[current]);
        }
    }
    if (optind < argc) {
        return refuse("unexpected argument ", argv[optind]);
    }
    if (o->period_us == 0 || o->length_us == 0 || o->cpu < 0 || o->seconds == 0) {
        return refuse("period, length, cpu and seconds are all needed", "");
    }
    if (o->length_us >= o->period_us) {
        return refuse("the length must be below the period", "");
    }
    if (o->seconds * SECOND / (o->period_us * MICROSECOND) > MOST_BURSTS) {
        return refuse("more than ten million bursts", "");
    }
    return DONE;
}

static int64_t now(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* Placement, priority, signals; false with a message when the host refuses. */
static bool prepare(const Options *o) {
    cpu_set_t cpus;
    struct sigaction action = {.sa_handler = stop};
    const struct sched_param priority = {.sched_priority = (int)o->fifo};
    CPU_ZERO(&cpus);
    CPU_SET((size_t)o->cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        (void)fprintf(stderr, "noise: error: --cpu %ld: %s\n", o->cpu, strerror(errno));
        return false;
    }
    if (o->fifo > 0 && sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
        (void)fprintf(stderr, "noise: error: --priority fifo:%ld: %s\nhint: needs CAP_SYS_NICE\n",
                      o->fifo, strerror(errno));
        return false;
    }
    /* No SA_RESTART: a signal ends the sleep. Nor does it outlive who started it. */
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    return true;
}

/* Burns processor time, not time: what it takes from the core does not shrink when it is preempted.
 */
static void burst(Done *done, int64_t length) {
    const int64_t began = now(CLOCK_MONOTONIC), had = now(CLOCK_THREAD_CPUTIME_ID);
    int64_t burnt = 0;
    do {
        burnt = now(CLOCK_THREAD_CPUTIME_ID) - had;
    } while (burnt < length);
    done->busy += burnt;
    done->lengths[done->bursts++] = now(CLOCK_MONOTONIC) - began;
}

/* Burst n is due n periods after the first, however late the one before was. */
static void work(const Options *o, Done *done) {
    const int64_t period = o->period_us * MICROSECOND, length = o->length_us * MICROSECOND;
    const int64_t periods = o->seconds * SECOND / period, began = now(CLOCK_MONOTONIC);
    for (int64_t n = 0; n < periods && !stopped; n++) {
        const int64_t due = began + n * period;
        const struct timespec deadline = {.tv_sec = due / SECOND, .tv_nsec = due % SECOND};
        while (!stopped &&
               clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
        }
        if (stopped) {
            break;
        }
        burst(done, length);
        /* The last period that has begun already is lost, and all before it. */
        const int64_t begun = (now(CLOCK_MONOTONIC) - began) / period;
        const int64_t lost = (begun < periods ? begun : periods - 1) - n;
        if (lost > 0) {
            done->overruns += lost;
            n += lost;
        }
    }
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool report(const Options *o, Done *done, int64_t ran) {
    int64_t sum = 0;
    for (int64_t i = 0; i < done->bursts; i++) {
        sum += done->lengths[i];
    }
    qsort(done->lengths, (size_t)done->bursts, sizeof *done->lengths, ascending);
    (void)printf("{\"period_us\": %ld, \"length_us\": %ld, \"cpu\": %ld, \"seconds\": %ld, "
                 "\"fifo\": %ld,\n \"bursts\": %lld, \"overruns\": %lld, \"busy_s\": %.9f, "
                 "\"ran_s\": %.9f",
                 o->period_us, o->length_us, o->cpu, o->seconds, o->fifo, (long long)done->bursts,
                 (long long)done->overruns, (double)done->busy * 1e-9, (double)ran * 1e-9);
    if (done->bursts > 0) {
        /* Nearest rank: the ⌈0.99 n⌉-th smallest. */
        const int64_t p99 = done->lengths[(99 * done->bursts + 99) / 100 - 1];
        (void)printf(",\n \"length_mean_s\": %.9f, \"length_p99_s\": %.9f",
                     (double)sum / (double)done->bursts * 1e-9, (double)p99 * 1e-9);
    }
    (void)printf("}\n");
    return fflush(stdout) == 0;
}

int main(int argc, char **argv) {
    Options options;
    Done done = {0};
    const int status = parse(&options, argc, argv);
    if (status != DONE) {
        return status;
    }
    if (!prepare(&options)) {
        return BAD_OPTION;
    }
    const int64_t most = options.seconds * SECOND / (options.period_us * MICROSECOND) + 1;
    done.lengths = calloc((size_t)most, sizeof *done.lengths);
    if (done.lengths == NULL) {
        (void)fprintf(stderr, "noise: error: no memory for %lld bursts\n", (long long)most);
        return FAILED;
    }
    const int64_t began = now(CLOCK_MONOTONIC);
    work(&options, &done);
    const bool written = report(&options, &done, now(CLOCK_MONOTONIC) - began);
    free(done.lengths);
    return written ? DONE : FAILED;
}
