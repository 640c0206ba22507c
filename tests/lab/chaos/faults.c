/*
 * Preloaded into the chaos campaign: lets the n-th call of a kind fail, or kills at it.
 *
 * Unarmed it only counts. A forked controller arms it for itself; what that executes is without it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* CREATE: an open to write. */
enum call {
    OPEN,
    CREATE,
    WRITE,
    FSYNC,
    RENAME,
    MKDIR,
    FORK,
    UNLINK,
    TRUNCATE,
    SOCKET,
    PIPE,
    CLOCK,
    CALLS
};

static long counts[CALLS];
static int armed = -1; /* a call; CALLS: whichever */
static long nth, last; /* of the calls, from 1; those from the n-th to the last are hit */
static int fault;      /* an errno; 0: SIGKILL to this process */
static long long step_ns;

void chaos_arm(int call, long first, long until, int error, long long clock_step_ns) {
    for (int i = 0; i < CALLS; i++) counts[i] = 0;
    nth = first;
    last = until;
    fault = error;
    step_ns = clock_step_ns;
    armed = call;
}

long chaos_count(int call) { return counts[call]; }

/* Whether this call has to fail; errno says how. */
static int hit(enum call call) {
    long number = __atomic_add_fetch(&counts[call], 1, __ATOMIC_RELAXED);
    if (armed == CALLS) {
        number = 0;
        for (int i = 0; i < CLOCK; i++) number += __atomic_load_n(&counts[i], __ATOMIC_RELAXED);
    } else if (armed != (int)call) {
        return 0;
    }
    if (call == CLOCK || number < nth || number > last) return 0;
    if (fault == 0) kill(getpid(), SIGKILL);
    errno = fault;
    return 1;
}

#define REAL(name)                                                                                 \
    static typeof(name) *real;                                                                     \
    if (real == NULL) real = (typeof(name) *)dlsym(RTLD_NEXT, #name)

#define MODE(flags)                                                                                \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                       \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE(flags)
    return hit((flags & (O_CREAT | O_WRONLY | O_RDWR)) ? CREATE : OPEN) ? -1
                                                                        : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE(flags)
    return hit((flags & (O_CREAT | O_WRONLY | O_RDWR)) ? CREATE : OPEN) ? -1
                                                                        : real(path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    REAL(openat);
    MODE(flags)
    return hit((flags & (O_CREAT | O_WRONLY | O_RDWR)) ? CREATE : OPEN)
               ? -1
               : real(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
    REAL(openat64);
    MODE(flags)
    return hit((flags & (O_CREAT | O_WRONLY | O_RDWR)) ? CREATE : OPEN)
               ? -1
               : real(directory, path, flags, mode);
}

ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    /* A disk is full in the midst of a record, not before it. */
    if (!hit(WRITE)) return real(file, data, size);
    if (size > 1 && errno == ENOSPC) return real(file, data, size / 2);
    return -1;
}

int fsync(int file) {
    REAL(fsync);
    return hit(FSYNC) ? -1 : real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    return hit(FSYNC) ? -1 : real(file);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return hit(RENAME) ? -1 : real(from, to);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
    REAL(renameat);
    return hit(RENAME) ? -1 : real(from_directory, from, to_directory, to);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return hit(MKDIR) ? -1 : real(path, mode);
}

int mkdirat(int directory, const char *path, mode_t mode) {
    REAL(mkdirat);
    return hit(MKDIR) ? -1 : real(directory, path, mode);
}

int unlink(const char *path) {
    REAL(unlink);
    return hit(UNLINK) ? -1 : real(path);
}

int unlinkat(int directory, const char *path, int flags) {
    REAL(unlinkat);
    return hit(UNLINK) ? -1 : real(directory, path, flags);
}

int ftruncate(int file, off_t length) {
    REAL(ftruncate);
    return hit(TRUNCATE) ? -1 : real(file, length);
}

int ftruncate64(int file, off64_t length) {
    REAL(ftruncate64);
    return hit(TRUNCATE) ? -1 : real(file, length);
}

int socket(int domain, int type, int protocol) {
    REAL(socket);
    return hit(SOCKET) ? -1 : real(domain, type, protocol);
}

int pipe2(int ends[2], int flags) {
    REAL(pipe2);
    return hit(PIPE) ? -1 : real(ends, flags);
}

pid_t fork(void) {
    REAL(fork);
    return hit(FORK) ? -1 : real();
}

/* A wrapper cannot return twice from a true vfork; a fork is all that it promises. */
pid_t vfork(void) { return fork(); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int status = real(clock, now);
    if (status == 0 && clock == CLOCK_REALTIME && step_ns != 0) {
        hit(CLOCK);
        if (counts[CLOCK] >= nth && counts[CLOCK] <= last) {
            long long ns = now->tv_sec * 1000000000LL + now->tv_nsec + step_ns;
            now->tv_sec = ns / 1000000000LL;
            now->tv_nsec = ns % 1000000000LL;
        }
    }
    return status;
}
