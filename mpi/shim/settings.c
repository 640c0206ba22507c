/* What the environment says, checked. */
#include "shim.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PREFIX "ULLAGE_CLOCK_"

static void refuse(const char *name, const char *value, const char *takes, const char *hint) {
    if (shim.rank > 0) {
        return; /* Rank 0's settings are everybody's. */
    }
    (void)fprintf(stderr, "ullage: %s takes %s, not '%s'; hint: %s\n", name, takes, value, hint);
}

static bool is_setting(const char *name, size_t length) {
    static const char *const names[] = {"TOPOLOGY",  "SHARE",  "MESSAGES", "TIME_US", "DEADLINE_S",
                                        "GLOBAL_NS", "RECORD", "DISTORT",  "TOKEN"};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        if (strlen(names[at]) == length && strncmp(name, names[at], length) == 0) {
            return true;
        }
    }
    return false;
}

/* A setting that is misspelt would silently be none. */
static void refuse_unknown(void) {
    for (char **entry = environ; entry != NULL && *entry != NULL && shim.rank == 0; entry++) {
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) == 0) {
            const char *name = *entry + strlen(PREFIX);
            const size_t length = strcspn(name, "=");
            if (!is_setting(name, length)) {
                (void)fprintf(stderr,
                              "ullage: " PREFIX "%.*s is no setting; hint: after " PREFIX
                              " comes TOPOLOGY, SHARE, MESSAGES, TIME_US, DEADLINE_S, GLOBAL_NS, "
                              "RECORD, DISTORT or TOKEN\n",
                              (int)length, name);
            }
        }
    }
}

/* A whole number of units within the limits; otherwise what it was, which `otherwise` names if it is
 * no number. */
static void number(const char *name, uint64_t *place, uint64_t unit, uint64_t least, uint64_t most,
                   const char *otherwise) {
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') {
        return;
    }
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || *text < '0' || *text > '9' || number < least ||
        number > most) {
        char takes[96], hint[64];
        (void)snprintf(takes, sizeof takes, "a whole number from %llu to %llu",
                       (unsigned long long)least, (unsigned long long)most);
        (void)snprintf(hint, sizeof hint, "%llu is taken", (unsigned long long)(*place / unit));
        refuse(name, text, takes, otherwise != NULL ? otherwise : hint);
        return;
    }
    *place = number * unit;
}

static Topology topology(void) {
    static const char *const names[] = {
        [FLAT] = "flat", [TWO_LEVEL] = "two-level", [TREE] = "tree"};
    const char *text = getenv("ULLAGE_CLOCK_TOPOLOGY");
    if (text == NULL || *text == '\0') {
        return TWO_LEVEL;
    }
    for (int at = FLAT; at <= TREE; at++) {
        if (strcmp(text, names[at]) == 0) {
            return (Topology)at;
        }
    }
    refuse("ULLAGE_CLOCK_TOPOLOGY", text, "flat, two-level or tree", "two-level is taken");
    return TWO_LEVEL;
}

void settings_read(Common *common) {
    uint64_t messages = 0, deadline_s = 10, share = 1;
    refuse_unknown();
    (void)ullage_rules_published(&common->rules);
    messages = common->rules.messages;
    number("ULLAGE_CLOCK_MESSAGES", &messages, 1, 2, 1000000, NULL);
    number("ULLAGE_CLOCK_TIME_US", &common->rules.time_ns, 1000, 1, 60000000,
           "1000, or 64 least round trips where that is more, is taken");
    number("ULLAGE_CLOCK_DEADLINE_S", &deadline_s, 1, 1, 86400, NULL);
    number("ULLAGE_CLOCK_SHARE", &share, 1, 0, 1, NULL);
    number("ULLAGE_CLOCK_GLOBAL_NS", &common->threshold_ns, 1, 1, 1000000000000,
           "half the least round trip is taken");
    common->rules.messages = (uint32_t)messages;
    common->deadline_ns = deadline_s * 1000000000;
    common->topology = (int32_t)topology();
    common->share = (int32_t)share;
    const char *record = getenv("ULLAGE_CLOCK_RECORD");
    if (record != NULL && strlen(record) < sizeof common->record) {
        (void)strcpy(common->record, record);
    } else if (record != NULL) {
        refuse("ULLAGE_CLOCK_RECORD", "…", "a shorter path", "no record is written");
    }
}

/* A whole number with spaces around it: what follows; null if it is none. */
static const char *whole(const char *text, long long *number) {
    char *end = NULL;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return errno != 0 || end == text ? NULL : end + strspn(end, " \t\n\v\f\r");
}

/* As the clock reads it, to which all else is no distortion. */
static bool distortion_understood(const char *text) {
    long long ppb = 0, ahead_ns = 0;
    const char *after = whole(text, &ppb);
    if (after != NULL && *after == ',') {
        after = whole(after + 1, &ahead_ns);
    }
    return after != NULL && *after == '\0' && ppb >= -1000000 && ppb <= 1000000;
}

/* Each rank has its own; the first one that is wrong is told. */
void settings_check_distortion(void) {
    const char *text = getenv("ULLAGE_CLOCK_DISTORT");
    const bool wrong = text != NULL && *text != '\0' && !distortion_understood(text);
    const int own = wrong ? shim.rank : shim.size;
    int least = shim.size;
    MPI_Request request = MPI_REQUEST_NULL;
    if (post_collective(PMPI_Iallreduce(&own, &least, 1, MPI_INT, MPI_MIN, shim.world, &request),
                        &request) &&
        wrong && least == shim.rank) {
        (void)fprintf(stderr,
                      "ullage: rank %d: ULLAGE_CLOCK_DISTORT takes PPB or PPB,NS in whole numbers, "
                      "PPB from -1000000 to 1000000, not '%s'; hint: the clock is not distorted\n",
                      shim.rank, text);
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
