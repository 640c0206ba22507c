// `wakes PERIOD_NS COUNT`: wakes so often, and does nothing else; prints the CPU seconds of one wake. It waits as
// ullage-viewers does, for no event, to the nanosecond.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

int main(int argc, char **argv) {
    int64_t period = argc == 3 ? atoll(argv[1]) : 0, count = argc == 3 ? atoll(argv[2]) : 0;
    int events = epoll_create1(EPOLL_CLOEXEC);
    if (period <= 0 || count <= 0 || events < 0) return 2;
    int64_t due = now_ns();
    for (int64_t done = 0; done < count; done++) {
        // Who was held up has missed instants, and does not make up for them.
        for (int64_t now = now_ns(); due <= now;) due += period;
        int64_t pause = due - now_ns();
        struct timespec time = {.tv_sec = 0, .tv_nsec = pause > 0 ? pause % SECOND : 0};
        struct epoll_event event;
        if (syscall(SYS_epoll_pwait2, events, &event, 1, &time, NULL, 0) < 0) return 1;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec +
                     (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("%.9f\n", seconds / count);
    return 0;
}
