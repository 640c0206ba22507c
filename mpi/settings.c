/* What the environment says, checked. */
#include "shim.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void refuse(const char *name, const char *value, const char *takes, const char *taken) {
    if (shim.rank > 0) {
        return; /* Rank 0's settings are everybody's. */
    }
    (void)fprintf(stderr, "ullage: %s takes %s, not '%s'; hint: %s is taken\n", name, takes, value,
                  taken);
}

/* A whole number of units within the limits; otherwise what it was. */
static void number(const char *name, uint64_t *place, uint64_t unit, uint64_t least,
                   uint64_t most) {
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') {
        return;
    }
    char *end = NULL;
    errno = 0;
    const unsigned long long found = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || *text < '0' || *text > '9' || found < least || found > most) {
        char takes[96], taken[32];
        (void)snprintf(takes, sizeof takes, "a whole number from %llu to %llu",
                       (unsigned long long)least, (unsigned long long)most);
        (void)snprintf(taken, sizeof taken, "%llu", (unsigned long long)(*place / unit));
        refuse(name, text, takes, taken);
        return;
    }
    *place = found * unit;
}

static Topology topology(void) {
    static const char *const names[] = {[FLAT] = "flat", [TWO_LEVEL] = "two-level", [TREE] = "tree"};
    const char *text = getenv("ULLAGE_CLOCK_TOPOLOGY");
    if (text == NULL || *text == '\0') {
        return TWO_LEVEL;
    }
    for (int at = FLAT; at <= TREE; at++) {
        if (strcmp(text, names[at]) == 0) {
            return (Topology)at;
        }
    }
    refuse("ULLAGE_CLOCK_TOPOLOGY", text, "flat, two-level or tree", names[TWO_LEVEL]);
    return TWO_LEVEL;
}

void settings_read(Common *common) {
    uint64_t messages = 0, deadline_s = 10, share = 1;
    (void)ullage_rules_published(&common->rules);
    messages = common->rules.messages;
    number("ULLAGE_CLOCK_MESSAGES", &messages, 1, 2, 1000000);
    number("ULLAGE_CLOCK_TIME_US", &common->rules.time_ns, 1000, 1, 60000000);
    number("ULLAGE_CLOCK_DEADLINE_S", &deadline_s, 1, 1, 86400);
    number("ULLAGE_CLOCK_SHARE", &share, 1, 0, 1);
    number("ULLAGE_CLOCK_GLOBAL_NS", &common->threshold_ns, 1, 1, 1000000000000);
    common->rules.messages = (uint32_t)messages;
    common->deadline_ns = deadline_s * 1000000000;
    common->topology = (int32_t)topology();
    common->share = (int32_t)share;
    const char *record = getenv("ULLAGE_CLOCK_RECORD");
    if (record != NULL && strlen(record) < sizeof common->record) {
        (void)strcpy(common->record, record);
    } else if (record != NULL) {
        refuse("ULLAGE_CLOCK_RECORD", "…", "a shorter path", "none");
    }
}

bool settings_random(void *bytes, size_t count) {
    return getrandom(bytes, count, 0) == (ssize_t)count;
}

bool settings_crowded(MPI_Comm host, int ranks) {
    cpu_set_t own, all;
    CPU_ZERO(&own);
    (void)sched_getaffinity(0, sizeof own, &own);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!post_collective(
            PMPI_Iallreduce(&own, &all, (int)sizeof all, MPI_BYTE, MPI_BOR, host, &request),
            &request)) {
        return true;
    }
    return ranks > 1 && ranks > CPU_COUNT(&all);
}
