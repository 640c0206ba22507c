/* The clock of ullage: strictly increasing, as cheap as a counter read, and, once synchronised by
 * RGAP, another machine's time with a bound on how wrong it may be.
 *
 * Link with libullage_clock.so, or with libullage_clock.a and -lm -lpthread -ldl.
 *
 * Conventions
 *   - Instants and durations are whole nanoseconds (_ns). Rates are parts per billion (_ppb) or per
 *     trillion (_ppt).
 *   - Functions that return int return ULLAGE_OK (0) or more, or a negative code of
 *     enum ullage_code, and then have written nothing. A null pointer where one is needed is
 *     ULLAGE_NULL. No function sets errno or prints.
 *   - Every function may be called from any thread; a client, a server or a correction from one
 *     thread at a time. None may be called from a signal handler.
 *   - The first call that needs the clock takes about 25 ms, to look at the machine.
 *   - No exception and no panic leaves this library: an internal error ends the process (abort).
 *   - "reasons" are bits that say why a value is worth less than it could be; 0 is all well. They
 *     stay once they are set. See ullage_reasons_names().
 */
#ifndef ULLAGE_CLOCK_H
#define ULLAGE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change that a program compiled against an older header would notice. */
#define ULLAGE_CLOCK_ABI 1
/* Bytes of every message of a synchronisation, both ways. */
#define ULLAGE_MESSAGE_LENGTH 80
/* Bytes of a run's token: secret, the same on both sides. */
#define ULLAGE_TOKEN_LENGTH 16
/* Bytes of ullage_global_encode(). */
#define ULLAGE_SHARE_LENGTH 176

enum ullage_code {
    ULLAGE_OK = 0,
    ULLAGE_NULL = -1,           /* a pointer is null */
    ULLAGE_ARGUMENT = -2,       /* a value that means nothing here */
    ULLAGE_NO_ANSWER = -3,      /* nobody answered in time */
    ULLAGE_CONTRADICTION = -4,  /* the clocks contradict their stated rate: stepped, or a lie */
    ULLAGE_APART = -5,          /* the other process's clock cannot be read here */
    ULLAGE_UNSYNCHRONISED = -6, /* not synchronised, or not often enough for this */
    ULLAGE_NOT_YET = -7         /* the synchronisation is not over, or no request waits */
};

/* Reasons; a published bit never changes its meaning. */
enum ullage_reason {
    ULLAGE_NO_COUNTER = 1 << 0,    /* this process has no counter that it may read */
    ULLAGE_NOT_INVARIANT = 1 << 1, /* the counter's rate changes with the core's power state */
    ULLAGE_UNSYNCHRONISED_CORES = 1 << 2, /* the counters of the cores were measured to be apart */
    ULLAGE_UNMEASURED = 1 << 3,    /* the counters of some core were not compared with the others */
    ULLAGE_RATE_UNKNOWN = 1 << 4,  /* the counter's rate could not be measured */
    ULLAGE_RATE_DISPUTED = 1 << 5, /* the processor states another rate than the one measured */
    ULLAGE_DISTRUSTED = 1 << 6,    /* the kernel has marked the counter as unstable */
    ULLAGE_UNPAIRED = 1 << 7,      /* counter and core cannot be read in one go, but have to be */
    ULLAGE_STEPPED = 1 << 8,       /* the counter jumped; the kernel's clock was believed instead */
    ULLAGE_SUSPENDED = 1 << 9,     /* the machine was suspended */
    ULLAGE_MOVED = 1 << 10,        /* the hypervisor says that the machine was moved or restored */
    ULLAGE_MOVES_UNSEEN = 1 << 11, /* a virtual machine that would not notice a live migration */
    ULLAGE_DISTORTED = 1 << 12,    /* made to run falsely on purpose, for an experiment */
    ULLAGE_ADRIFT = 1 << 13        /* something happened since: it may be off by anything */
};

/* The ABI that the library has; to be compared with ULLAGE_CLOCK_ABI. */
uint32_t ullage_clock_abi(void);

/* The library's version, such as "0.1.0". Never null; not to be freed. */
const char *ullage_clock_version(void);

/* What a code means, in English. Never null, also for what is no code; not to be freed. */
const char *ullage_clock_strerror(int code);

/* ---- The process's own clock ------------------------------------------------------------------
 * Nanoseconds since about the machine's start, suspension not counted, at the rate of
 * CLOCK_MONOTONIC_RAW. */

typedef struct ullage_stamp {
    uint64_t ns;      /* as by ullage_clock_ordered() */
    uint32_t reasons; /* of this clock */
    uint32_t reserved;
} ullage_stamp;

/* Now, in ns: strictly increasing in the calling thread. May be executed early by the processor,
 * so not to be compared with another thread's. */
uint64_t ullage_clock_now(void);

/* Now, in ns: strictly increasing in the calling thread, and not before what another thread had
 * read when it passed something on to this one, up to "ordered_ns" of ullage_clock_facts(). */
uint64_t ullage_clock_ordered(void);

/* An ordered value with the reasons that hold for it. */
int ullage_clock_stamp(ullage_stamp *out);

/* Looks for suspension, live migration and the kernel's loss of trust: a few microseconds. Returns
 * the reasons that hold now for all threads. */
uint32_t ullage_clock_check(void);

/* Measures the counter's rate again over everything since the start, and goes on with it if that is
 * better. Takes 2 ms. Returns the bound on the rate's error in ppb, UINT32_MAX if none is known. */
uint32_t ullage_clock_refine(void);

/* What was found out about this machine and what the clock promises, as one JSON object:
 *   {"facts": {...}, "promise": {"source", "bridging", "ordered_ns", "cores", "rate", "drift_ppb",
 *    "reasons": [names], "text"}, "rate": {"millihertz", "sigma_ppb", "bound_ppb", "source"},
 *    "reasons": [names]}; null is not known.
 * As snprintf: writes at most `size` bytes with the final 0, and returns the length that the text
 * has without it. `buffer` may be null if `size` is 0. */
int ullage_clock_facts(char *buffer, size_t size);

/* The names of reasons, such as "suspended, moved"; empty for 0. As snprintf, see above. */
int ullage_reasons_names(uint32_t reasons, char *buffer, size_t size);

/* The sentence that a reason's name stands for. As snprintf; ULLAGE_ARGUMENT for an unknown name. */
int ullage_reason_meaning(const char *name, char *buffer, size_t size);

/* ---- RGAP: a synchronisation, over any transport ----------------------------------------------
 * The library decides what to send and when to stop; the caller carries messages of
 * ULLAGE_MESSAGE_LENGTH bytes and reads the clock: ullage_clock_ordered() in a client,
 * ullage_global_serve() in a server. */

/* When a client stops. */
typedef struct ullage_rules {
    uint64_t spread_ns; /* K: the smallest round trips' standard deviation is under this */
    uint64_t
        time_ns; /* cap: no longer than this once there is one exchange; 0: 1 ms or 64 least round trips */
    uint64_t patience_ns; /* for the first answer, no longer than this */
    uint64_t reply_ns;    /* without an answer for so long, a request is lost; doubles each time */
    uint32_t dropped;     /* D: exchanges before anything counts */
    uint32_t smallest;    /* N: how many the smallest are, 2 to 64 */
    uint32_t messages;    /* cap: no more requests and answers together */
    uint32_t worst_ppb;   /* rho: the clocks' rates never differ by more */
} ullage_rules;

/* What is assumed of the two clocks' rates relative to each other. */
typedef struct ullage_drift {
    uint64_t baseline_ns; /* synchronisations at least so far apart make a rate */
    uint32_t worst_ppb;   /* rho: the rates never differ by more */
    uint32_t wander_ppb;  /* omega: at any moment within this of the mean rate */
} ullage_drift;

/* What a server says of its clock. */
typedef struct ullage_standing {
    uint64_t hard_ns;  /* not further off the root than this, if rho holds; UINT64_MAX: unknown */
    uint64_t bound_ns; /* the same in 99.9 % of all cases, if paths are alike */
    uint32_t reasons;
    uint8_t stratum; /* synchronisations between it and the root, which is 0 */
    uint8_t awake;   /* 1: it was looking when the request came, no scheduler had to wake it up */
    uint8_t reserved[2];
} ullage_standing;

typedef struct ullage_counts {
    uint32_t sent;      /* requests */
    uint32_t answers;   /* taken */
    uint32_t lost;      /* requests given up */
    uint32_t malformed; /* no answer of this version; ignored */
    uint32_t foreign;   /* of another run; ignored */
    uint32_t old;       /* to another request than the last, or twice; ignored */
} ullage_counts;

/* At `local_ns` the server's clock was ahead by `offset_ns`. */
typedef struct ullage_fix {
    uint64_t local_ns; /* the client's clock, at the end of the best exchange */
    int64_t offset_ns; /* server less client */
    uint64_t half_ns;  /* hard bound of the offset, paths of any asymmetry included */
    uint64_t sure_ns;  /* 99.9 % bound, if paths are alike */
    uint64_t noise_ns; /* the part of it that chance has */
    uint64_t rtt_ns;   /* the least round trip */
} ullage_fix;

enum ullage_stop {
    ULLAGE_STOP_ALIKE = 0,    /* the published rule: the smallest round trips are alike */
    ULLAGE_STOP_MESSAGES = 1, /* the cap on messages */
    ULLAGE_STOP_TIME = 2      /* the cap on time */
};

typedef struct ullage_outcome {
    ullage_fix fix;
    ullage_standing standing; /* the server's, with the best exchange; awake: both sides were */
    ullage_counts counts;
    uint64_t took_ns; /* from ullage_client_new() to the end */
    int stop;         /* enum ullage_stop */
    uint32_t reserved;
} ullage_outcome;

enum ullage_action_kind {
    ULLAGE_SEND = 0, /* send `message` at once, then poll again */
    ULLAGE_WAIT = 1, /* wait for a message, not beyond `until_ns` of the own clock; poll again */
    ULLAGE_DONE = 2  /* it is over: `result` */
};

typedef struct ullage_action {
    int kind;   /* enum ullage_action_kind */
    int result; /* ULLAGE_OK, ULLAGE_NO_ANSWER or ULLAGE_CONTRADICTION */
    uint64_t until_ns;
    uint8_t message[ULLAGE_MESSAGE_LENGTH];
} ullage_action;

typedef struct ullage_client ullage_client;
typedef struct ullage_server ullage_server;

/* The published rules within 200 messages and 1 ms; rho is 100 ppm. */
int ullage_rules_published(ullage_rules *rules);

/* rho 100 ppm, omega 1 ppm, a baseline of 1 s. */
int ullage_drift_usual(ullage_drift *drift);

/* A synchronisation that begins now, by the own clock. `rules` may be null: the published ones.
 * Null if `token` is null. */
ullage_client *ullage_client_new(const ullage_rules *rules,
                                 const uint8_t token[ULLAGE_TOKEN_LENGTH], uint64_t now_ns);

/* Null does nothing. */
void ullage_client_free(ullage_client *client);

/* What to do, now. Asked at the instants it names and after every message, it ends within the caps
 * and one exchange. */
int ullage_client_poll(ullage_client *client, uint64_t now_ns, ullage_action *out);

/* A message of any length came; `now_ns` was read after it came. `awake`: not 0 if this side was
 * looking for it when it came, so that no scheduler took part. What is no answer to the last
 * request is counted and ignored. */
int ullage_client_receive(ullage_client *client, const void *bytes, size_t length, uint64_t now_ns,
                          int awake);

/* What was sent and came until now. */
int ullage_client_counts(const ullage_client *client, ullage_counts *out);

/* The result; ULLAGE_NOT_YET unless a poll said ULLAGE_DONE with ULLAGE_OK. */
int ullage_client_outcome(const ullage_client *client, ullage_outcome *out);

/* A server for one run; null if `token` is null. It needs no memory of its clients. */
ullage_server *ullage_server_new(const uint8_t token[ULLAGE_TOKEN_LENGTH]);

/* Null does nothing. */
void ullage_server_free(ullage_server *server);

/* A message of any length came at `t2`, by the server's clock read after it came. Returns 1 if it is
 * a request that now waits for its answer (in the place of an earlier one), 0 if it is to be
 * ignored: another run's, or none. */
int ullage_server_receive(ullage_server *server, const void *bytes, size_t length, uint64_t t2);

/* The answer to the request that waits, to be sent at once: `t3` is the server's clock now, which is
 * as good as `standing` says. ULLAGE_NOT_YET if none waits. */
int ullage_server_answer(ullage_server *server, uint64_t t3, const ullage_standing *standing,
                         uint8_t out[ULLAGE_MESSAGE_LENGTH]);

/* ---- The process's global clock ---------------------------------------------------------------
 * The root's clock, read from the own one: no message. */

typedef struct ullage_instant {
    uint64_t local_ns; /* the own clock */
    uint64_t ns;       /* the root's; the own one's before any synchronisation */
    uint64_t bound_ns; /* not further off in 99.9 % of all cases; UINT64_MAX: nothing is known */
    uint64_t hard_ns;  /* never further off, if rho holds; UINT64_MAX: nothing is known */
    uint32_t reasons;  /* of both clocks */
    uint32_t reserved;
} ullage_instant;

/* This process is the root: its clock is the global one. */
int ullage_global_lead(void);

/* How often something has happened to this clock that voids what was known of others. To be asked
 * before a synchronisation begins; also looks, as ullage_clock_check(). */
uint32_t ullage_global_disruptions(void);

/* Takes a client's result in, whose instants are of ullage_clock_ordered(). Global time goes on
 * without a jump, if it was known before; several at least a baseline apart make a rate.
 * ULLAGE_NOT_YET: it is not over. ULLAGE_CONTRADICTION: it contradicts the ones before; all are
 * forgotten. */
int ullage_global_learn(const ullage_client *client, const ullage_drift *drift,
                        uint32_t disruptions);

/* Now, with both bounds and the reasons. */
int ullage_global_now(ullage_instant *out);

/* The global time of an instant of this process's own clock, by what is known now. */
int ullage_global_at(uint64_t local_ns, ullage_instant *out);

/* Now, in ns, as ullage_global_now() give or take one, without the rest: cheap. */
uint64_t ullage_global_ns(void);

/* Now, in seconds since the origin: cheap. A double holds 1 ns for 104 days. */
double ullage_global_seconds(void);

/* Sets what ullage_global_seconds() counts from, in ns of the global clock; 0 at first. */
void ullage_global_origin(uint64_t ns);

/* What this process says of itself as a server (`awake` is 1, to be cleared by the caller if it had
 * to be woken up), and its global time as it is known, in ns: without what is still to be slewed away
 * from what the process itself is shown. */
int ullage_global_serve(uint64_t *ns, ullage_standing *standing);

/* The time of ullage_global_serve(), in ns, give or take one: to be read right after a request came
 * (t2), and right before the answer goes (t3), with the standing asked for in between. */
uint64_t ullage_global_known_ns(void);

/* How much faster the root's clock runs than the own one, and how well that is known;
 * ULLAGE_UNSYNCHRONISED as long as there is no baseline. */
int ullage_global_rate(int64_t *ppt, uint64_t *unsure_ppt);

/* Synchronisations between this clock and the root's, 0 to 255; ULLAGE_UNSYNCHRONISED before the
 * first. */
int ullage_global_stratum(void);

/* What this process has learned, for the others on the same kernel. */
int ullage_global_encode(uint8_t out[ULLAGE_SHARE_LENGTH]);

/* Goes over to what another process of this kernel has learned: both then read the same time from
 * the same counter. `moved_ns`, if not null: how far the own clock moved. ULLAGE_APART: these are not
 * the bytes of a process whose clock could be read here. */
int ullage_global_adopt(const void *bytes, size_t length, int64_t *moved_ns);

/* ---- Afterwards -------------------------------------------------------------------------------
 * Between two synchronisations, time is known better than it was in between. */

typedef struct ullage_correction ullage_correction;

typedef struct ullage_correction_facts {
    uint64_t drifted_ns;  /* how far the offset moved from the first to the last */
    uint64_t residual_ns; /* the largest distance of one in between from the line; see `checked` */
    uint64_t wander_ppb;  /* omega, as stated or as the residual shows */
    uint32_t checked;     /* 0: there was none in between, so there is no residual */
    uint32_t reserved;
} ullage_correction_facts;

/* From this process's first synchronisation to its last. ULLAGE_UNSYNCHRONISED: there are not two.
 * ULLAGE_CONTRADICTION: rho does not hold in between. */
int ullage_correction_new(const ullage_drift *drift, ullage_correction **out);

/* Null does nothing. */
void ullage_correction_free(ullage_correction *correction);

/* The global time of an instant of the own clock, corrected; reasons are 0. */
int ullage_correction_at(const ullage_correction *correction, uint64_t local_ns,
                         ullage_instant *out);

/* What was corrected. */
int ullage_correction_facts_of(const ullage_correction *correction, ullage_correction_facts *out);

#ifdef __cplusplus
}
#endif

#endif
