/* Every function of the header, right and wrong. */
#include "ullage_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void check(int holds, const char *what, int line) {
    if (!holds) {
        (void)fprintf(stderr, "line %d: %s\n", line, what);
        failures++;
    }
}

#define CHECK(CONDITION) check((CONDITION), #CONDITION, __LINE__)

static const uint8_t token[ULLAGE_TOKEN_LENGTH] = "sixteen bytes ok";

static void versions(void) {
    CHECK(ullage_clock_abi() == ULLAGE_CLOCK_ABI);
    CHECK(strchr(ullage_clock_version(), '.') != NULL);
    for (int code = ULLAGE_NOT_YET; code <= ULLAGE_OK; code++) {
        CHECK(strcmp(ullage_clock_strerror(code), "unknown code") != 0);
    }
    CHECK(strcmp(ullage_clock_strerror(ULLAGE_NOT_YET - 1), "unknown code") == 0);
    CHECK(strcmp(ullage_clock_strerror(1), "unknown code") == 0);
    CHECK(strcmp(ullage_clock_strerror(-2147483647 - 1), "unknown code") == 0);
}

static void local(void) {
    ullage_stamp stamp;
    uint64_t last = ullage_clock_now();
    for (int i = 0; i < 100000; i++) {
        const uint64_t now = i % 2 ? ullage_clock_now() : ullage_clock_ordered();
        CHECK(now > last);
        last = now;
    }
    CHECK(ullage_clock_stamp(NULL) == ULLAGE_NULL);
    CHECK(ullage_clock_stamp(&stamp) == ULLAGE_OK && stamp.ns > last);
    CHECK((ullage_clock_check() & stamp.reasons) == stamp.reasons);
    CHECK(ullage_clock_refine() > 0 || (stamp.reasons & ULLAGE_NO_COUNTER));
}

static void texts(void) {
    char text[4096], small[4] = "***";
    const int length = ullage_clock_facts(NULL, 0);
    CHECK(length > 100 && length < (int)sizeof text);
    CHECK(ullage_clock_facts(NULL, 1) == ULLAGE_NULL);
    CHECK(ullage_clock_facts(text, sizeof text) > 100);
    CHECK(text[0] == '{' && strstr(text, "\"promise\":{") != NULL);
    CHECK(ullage_reasons_names(0, text, sizeof text) == 0 && text[0] == '\0');
    CHECK(ullage_reasons_names(ULLAGE_SUSPENDED | ULLAGE_MOVED, text, sizeof text) == 16);
    CHECK(strcmp(text, "suspended, moved") == 0);
    CHECK(ullage_reasons_names(ULLAGE_MOVED, small, sizeof small) == 5);
    CHECK(strcmp(small, "mov") == 0);
    CHECK(ullage_reason_meaning("moved", text, sizeof text) > 0 && strstr(text, "hypervisor"));
    CHECK(ullage_reason_meaning("bored", text, sizeof text) == ULLAGE_ARGUMENT);
    CHECK(ullage_reason_meaning(NULL, text, sizeof text) == ULLAGE_NULL);
}

/* Each bit has the name that the header gives it. */
static void reasons(void) {
    static const struct {
        int bit;
        const char *name;
    } all[] = {{ULLAGE_NO_COUNTER, "no-counter"},
               {ULLAGE_NOT_INVARIANT, "not-invariant"},
               {ULLAGE_UNSYNCHRONISED_CORES, "unsynchronised"},
               {ULLAGE_UNMEASURED, "unmeasured"},
               {ULLAGE_RATE_UNKNOWN, "rate-unknown"},
               {ULLAGE_RATE_DISPUTED, "rate-disputed"},
               {ULLAGE_DISTRUSTED, "distrusted"},
               {ULLAGE_UNPAIRED, "unpaired"},
               {ULLAGE_STEPPED, "stepped"},
               {ULLAGE_SUSPENDED, "suspended"},
               {ULLAGE_MOVED, "moved"},
               {ULLAGE_MOVES_UNSEEN, "moves-unseen"},
               {ULLAGE_DISTORTED, "distorted"},
               {ULLAGE_ADRIFT, "adrift"}};
    uint32_t together = 0;
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        char name[64], every[1024];
        CHECK(ullage_reasons_names((uint32_t)all[at].bit, name, sizeof name) > 0);
        CHECK(strcmp(name, all[at].name) == 0);
        together |= (uint32_t)all[at].bit;
        CHECK(ullage_reasons_names(UINT32_MAX, every, sizeof every) > 0);
        CHECK(at + 1 < sizeof all / sizeof *all ||
              ullage_reasons_names(together, NULL, 0) == (int)strlen(every));
    }
}

/* Before any synchronisation. */
static void alone(void) {
    ullage_instant instant;
    uint8_t share[ULLAGE_SHARE_LENGTH];
    int64_t ppt;
    uint64_t unsure;
    CHECK(ullage_global_now(NULL) == ULLAGE_NULL && ullage_global_at(1, NULL) == ULLAGE_NULL);
    CHECK(ullage_global_now(&instant) == ULLAGE_OK);
    CHECK(instant.ns == instant.local_ns);
    CHECK(instant.bound_ns == UINT64_MAX && instant.hard_ns == UINT64_MAX);
    CHECK(ullage_global_stratum() == ULLAGE_UNSYNCHRONISED);
    CHECK(ullage_global_encode(share) == ULLAGE_UNSYNCHRONISED);
    CHECK(ullage_global_encode(NULL) == ULLAGE_NULL);
    CHECK(ullage_global_rate(&ppt, &unsure) == ULLAGE_UNSYNCHRONISED);
    CHECK(ullage_global_rate(NULL, &unsure) == ULLAGE_NULL);
    CHECK(ullage_global_rate(&ppt, NULL) == ULLAGE_NULL);
    const uint64_t before = ullage_clock_ordered();
    CHECK(ullage_global_ns() >= before && ullage_global_known_ns() > before);
}

/* A synchronisation of this clock with one that is `ahead_ns` ahead, by memory. */
static ullage_client *synchronise(ullage_server *server, uint64_t ahead_ns) {
    ullage_client *client = ullage_client_new(NULL, token, ullage_clock_ordered());
    const ullage_standing root = {.hard_ns = 0, .bound_ns = 0, .stratum = 0, .awake = 1};
    ullage_action action;
    uint8_t answer[ULLAGE_MESSAGE_LENGTH];
    for (;;) {
        CHECK(ullage_client_poll(client, ullage_clock_ordered(), &action) == ULLAGE_OK);
        if (action.kind != ULLAGE_SEND) {
            break;
        }
        const uint64_t t2 = ullage_clock_ordered() + ahead_ns;
        CHECK(ullage_server_receive(server, action.message, sizeof action.message, t2) == 1);
        const uint64_t t3 = ullage_clock_ordered() + ahead_ns;
        CHECK(ullage_server_answer(server, t3, &root, answer) == ULLAGE_OK);
        CHECK(ullage_client_receive(client, answer, sizeof answer, ullage_clock_ordered(), 1) ==
              ULLAGE_OK);
    }
    CHECK(action.kind == ULLAGE_DONE && action.result == ULLAGE_OK);
    return client;
}

static void exchanges(void) {
    ullage_rules rules;
    ullage_drift drift;
    ullage_action action;
    ullage_outcome outcome;
    ullage_counts counts;
    ullage_instant instant;
    uint8_t answer[ULLAGE_MESSAGE_LENGTH];
    const uint64_t ahead_ns = 5000000000;
    CHECK(ullage_rules_published(NULL) == ULLAGE_NULL && ullage_drift_usual(NULL) == ULLAGE_NULL);
    CHECK(ullage_rules_published(&rules) == ULLAGE_OK && rules.messages == 200);
    CHECK(rules.time_ns == 0 && rules.dropped == 5 && rules.smallest == 20);
    CHECK(rules.spread_ns == 500 && rules.worst_ppb == 100000);
    CHECK(ullage_drift_usual(&drift) == ULLAGE_OK && drift.baseline_ns == 1000000000);

    CHECK(ullage_server_new(NULL) == NULL && ullage_client_new(NULL, NULL, 0) == NULL);
    ullage_server *server = ullage_server_new(token);
    const ullage_standing root = {.awake = 1};
    CHECK(ullage_server_receive(server, "garbage", 7, 1) == 0);
    CHECK(ullage_server_receive(server, NULL, 7, 1) == ULLAGE_NULL);
    CHECK(ullage_server_receive(NULL, "garbage", 7, 1) == ULLAGE_NULL);
    CHECK(ullage_server_answer(server, 1, &root, answer) == ULLAGE_NOT_YET);
    CHECK(ullage_server_answer(server, 1, NULL, answer) == ULLAGE_NULL);
    CHECK(ullage_server_answer(server, 1, &root, NULL) == ULLAGE_NULL);

    ullage_client *fresh = ullage_client_new(&rules, token, ullage_clock_ordered());
    CHECK(ullage_client_outcome(fresh, &outcome) == ULLAGE_NOT_YET);
    CHECK(ullage_global_learn(fresh, &drift, 0) == ULLAGE_NOT_YET);
    CHECK(ullage_client_poll(fresh, ullage_clock_ordered(), NULL) == ULLAGE_NULL);
    CHECK(ullage_client_poll(NULL, 1, &action) == ULLAGE_NULL);
    CHECK(ullage_client_receive(fresh, "garbage", 7, ullage_clock_ordered(), 0) == ULLAGE_OK);
    CHECK(ullage_client_receive(fresh, NULL, 7, 1, 0) == ULLAGE_NULL);
    CHECK(ullage_client_counts(fresh, &counts) == ULLAGE_OK && counts.malformed == 1);
    CHECK(ullage_client_counts(fresh, NULL) == ULLAGE_NULL);
    CHECK(ullage_client_outcome(fresh, NULL) == ULLAGE_NULL);
    CHECK(ullage_client_poll(fresh, ullage_clock_ordered() + 2000000000, &action) == ULLAGE_OK);
    CHECK(action.kind == ULLAGE_DONE && action.result == ULLAGE_NO_ANSWER);
    ullage_client_free(fresh);

    const uint32_t disruptions = ullage_global_disruptions();
    ullage_client *client = synchronise(server, ahead_ns);
    CHECK(ullage_client_outcome(client, &outcome) == ULLAGE_OK);
    CHECK(outcome.counts.answers >= 20 && outcome.fix.half_ns < 1000000);
    CHECK((uint64_t)llabs(outcome.fix.offset_ns - (int64_t)ahead_ns) <= outcome.fix.half_ns);
    CHECK(ullage_global_learn(NULL, &drift, 0) == ULLAGE_NULL);
    CHECK(ullage_global_learn(client, NULL, 0) == ULLAGE_NULL);
    CHECK(ullage_global_learn(client, &drift, disruptions) == ULLAGE_OK);
    ullage_client_free(client);
    CHECK(ullage_global_stratum() == 1);
    CHECK(ullage_global_now(&instant) == ULLAGE_OK && instant.hard_ns < 10000000);
    CHECK((uint64_t)llabs((int64_t)(instant.ns - instant.local_ns - ahead_ns)) <= instant.hard_ns);
    CHECK(ullage_global_at(instant.local_ns, &instant) == ULLAGE_OK);

    ullage_correction *correction = NULL;
    CHECK(ullage_correction_new(&drift, &correction) == ULLAGE_UNSYNCHRONISED);
    CHECK(ullage_correction_new(NULL, &correction) == ULLAGE_NULL);
    CHECK(ullage_correction_new(&drift, NULL) == ULLAGE_NULL);
    client = synchronise(server, ahead_ns);
    CHECK(ullage_global_learn(client, &drift, disruptions) == ULLAGE_OK);
    ullage_client_free(client);
    CHECK(ullage_correction_new(&drift, &correction) == ULLAGE_OK && correction != NULL);
    ullage_correction_facts facts;
    CHECK(ullage_correction_facts_of(correction, &facts) == ULLAGE_OK && facts.checked == 0);
    CHECK(ullage_correction_facts_of(correction, NULL) == ULLAGE_NULL);
    CHECK(ullage_correction_facts_of(NULL, &facts) == ULLAGE_NULL);
    CHECK(ullage_correction_at(NULL, 1, &instant) == ULLAGE_NULL);
    CHECK(ullage_correction_at(correction, 1, NULL) == ULLAGE_NULL);
    CHECK(ullage_correction_at(correction, outcome.fix.local_ns, &instant) == ULLAGE_OK);
    CHECK((uint64_t)llabs((int64_t)(instant.ns - instant.local_ns - ahead_ns)) <= instant.hard_ns);
    ullage_correction_free(correction);

    client = synchronise(server, ahead_ns + 1000000000);
    CHECK(ullage_global_learn(client, &drift, disruptions) == ULLAGE_CONTRADICTION);
    ullage_client_free(client);
    CHECK(ullage_global_now(&instant) == ULLAGE_OK);
    CHECK((instant.reasons & ULLAGE_ADRIFT) && instant.hard_ns == UINT64_MAX);
    ullage_server_free(server);
    ullage_server_free(NULL);
    ullage_client_free(NULL);
    ullage_correction_free(NULL);
}

static void leading(void) {
    uint8_t share[ULLAGE_SHARE_LENGTH];
    ullage_standing standing;
    ullage_instant instant;
    int64_t moved_ns = 1 << 30;
    uint64_t ns = 0;
    CHECK(ullage_global_lead() == ULLAGE_OK && ullage_global_stratum() == 0);
    CHECK(ullage_global_serve(NULL, &standing) == ULLAGE_NULL);
    CHECK(ullage_global_serve(&ns, NULL) == ULLAGE_NULL);
    CHECK(ullage_global_serve(&ns, &standing) == ULLAGE_OK && ns > 0);
    CHECK(standing.stratum == 0 && standing.awake == 1);
    /* What its cores may be apart, and a little for rounding: never nothing known. */
    CHECK(standing.hard_ns >= standing.bound_ns && standing.hard_ns < 1000000);
    CHECK(ullage_global_encode(share) == ULLAGE_OK);
    CHECK(ullage_global_adopt(share, sizeof share, &moved_ns) == ULLAGE_OK);
    CHECK(llabs(moved_ns) < 1000000);
    CHECK(ullage_global_adopt(share, sizeof share, NULL) == ULLAGE_OK);
    CHECK(ullage_global_adopt(share, sizeof share - 1, NULL) == ULLAGE_APART);
    CHECK(ullage_global_adopt(NULL, sizeof share, NULL) == ULLAGE_NULL);
    share[0] ^= 1;
    CHECK(ullage_global_adopt(share, sizeof share, NULL) == ULLAGE_APART);

    uint64_t last = 0;
    for (int i = 0; i < 100000; i++) {
        const uint64_t now = i % 2 ? ullage_global_ns() : ullage_global_known_ns();
        CHECK(now > last);
        last = now;
    }
    CHECK(ullage_global_now(&instant) == ULLAGE_OK && instant.ns >= last);
    ullage_global_origin(instant.ns);
    const double seconds = ullage_global_seconds();
    CHECK(seconds > 0 && seconds < 60);
    ullage_global_origin(instant.ns + 10000000000);
    CHECK(ullage_global_seconds() < seconds - 9);
}

int main(void) {
    versions();
    local();
    texts();
    reasons();
    alone();
    exchanges();
    leading();
    return failures != 0;
}
