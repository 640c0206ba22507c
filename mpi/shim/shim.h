/* libullage_mpi.so: gives unmodified MPI programs a global MPI_Wtime. What its files share. */
#ifndef ULLAGE_SHIM_H
#define ULLAGE_SHIM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage_clock.h"

/* Everything else stays inside. */
#define EXPORT __attribute__((visibility("default")))

typedef enum { FLAT, TWO_LEVEL, TREE } Topology;

/* What all ranks have from rank 0. */
typedef struct {
    uint8_t token[ULLAGE_TOKEN_LENGTH];
    uint64_t run;          /* tells runs apart in records; no secret */
    uint64_t origin_ns;    /* of the root's clock: MPI_Wtime's zero */
    uint64_t deadline_ns;  /* for another rank's turn to come */
    uint64_t threshold_ns; /* MPI_WTIME_IS_GLOBAL's, in place of half a round trip; 0: not given */
    ullage_rules rules;
    int32_t topology;  /* Topology */
    int32_t share;     /* the ranks of a host share one synchronisation */
    char record[2048]; /* where records go; empty: nowhere */
} Common;

/* How a rank came to its time. */
typedef enum {
    NOTHING,  /* it has MPI's own */
    ROOT,     /* its clock is the global one */
    MESSAGES, /* synchronised by messages */
    SHARED    /* reads the clock of its host's leader */
} Way;

/* One synchronisation of this rank, at the start or in the end. */
typedef struct {
    const char *problem;    /* why there is none; null: there is */
    ullage_outcome outcome; /* of the messages; of the proof where the clock is shared */
    uint64_t time_ns;       /* all of it, waiting for one's turn included */
    uint64_t last_ns;       /* the exchange that was the last */
    uint32_t messages;      /* sent and received in all */
    uint32_t served;        /* answers given to other ranks */
    ullage_instant instant; /* right after it at the start, right before it in the end */
    bool done;
} Sync;

/* What the second synchronisation found. */
typedef struct {
    int64_t drifted_ns; /* how far the root's clock has moved against the own one */
    uint64_t apart_ns;  /* from the first synchronisation to the last */
    uint64_t since_ns;  /* what was shown when the first was */
    int64_t rate_ppt;
    uint64_t unsure_ppt;
    uint64_t bound_ns; /* of a corrected time-stamp halfway */
    uint64_t hard_ns;
    uint64_t residual_ns;
    uint32_t checked;
    int32_t valid; /* nothing else means anything if 0 */
} Corrected;

typedef struct {
    MPI_Comm world; /* ours: a duplicate of MPI_COMM_WORLD; messages on it are nobody else's */
    MPI_Comm host;  /* the ranks that share a leader: those of this host, or this one alone */
    int rank;       /* -1: unknown */
    int size, host_rank, host_size;
    int *host_ranks; /* in `world`, of the ranks of `host` */
    int *leaders;    /* their ranks in `world`, in order */
    int leader_count;
    int pid;
    bool crowded; /* more ranks on the host than processors for them: who waits, yields */
    Common common;
    Way way;
    uint8_t *ways; /* of every rank of `world`, after the first synchronisation */
    Sync first, last;
    Corrected corrected;
    uint64_t rtt_ns;   /* the least round trip that any rank has measured; 0: none was */
    uint64_t bound_ns; /* at `bound_at_ns` no rank's clock was further off than this, 99.9 % */
    uint64_t bound_at_ns;
    uint64_t growth_ns; /* and every second by so much more */
    bool everybody;     /* all ranks have global time without reservations */
    bool finalized;
    char host_name[MPI_MAX_PROCESSOR_NAME];
} Shim;

extern Shim shim;

/* wtime.c */
extern bool wtime_global; /* MPI_Wtime is ours */
bool wtime_is_global(void);
bool wtime_doubtful(uint32_t reasons);

/* settings.c */
void settings_read(Common *common);
/* Says so if a rank's clock cannot be distorted as it was asked for. Collective. */
void settings_check_distortion(void);
bool settings_random(void *bytes, size_t count);
/* Whether there are more ranks on the host than processors that any of them may use. Collective. */
bool settings_crowded(MPI_Comm host, int ranks);

/* post.c: messages with deadlines */
typedef struct {
    MPI_Comm comm;
    int peer, out_tag, in_tag;
    MPI_Request in;
    bool posted;
    uint64_t empty_ns; /* when it was last seen that nothing is there; 0: not looked */
    uint8_t buffer[ULLAGE_MESSAGE_LENGTH + 1];
    int length;
    uint32_t messages;
} Post;

void post_open(Post *post, MPI_Comm comm, int peer, int out_tag, int in_tag);
void post_close(Post *post);
bool post_send(Post *post, const void *bytes, int length);
/* Whether a message is in `buffer`; at once. */
bool post_look(Post *post);
/* After a look that found something: whether it came while looked for. */
bool post_awake(const Post *post, uint64_t now_ns);
/* Waits for a message; false if none came in time. */
bool post_wait(Post *post, uint64_t within_ns);
/* Until a request is done, or not in time. */
bool post_finish(MPI_Request *request, uint64_t within_ns);
/* The same of a collective operation that was started with this code: all ranks have come to it or
 * will, as to MPI_Init. MPI's own waiting would keep a processor that others need. */
bool post_collective(int code, MPI_Request *request);
bool post_tell(void *bytes, size_t count, MPI_Comm comm);
/* Until all ranks are here. */
bool post_barrier(void);
void post_relax(uint64_t waited_ns);
/* Leaves the processor, once: who wakes up is put on a free one, if there is one. */
void post_leave(void);

/* session.c: two ranks synchronise */
void session_serve(MPI_Comm comm, int peer, int phase, bool able, Sync *sync);
const char *session_ask(MPI_Comm comm, int peer, int phase, bool shared, Sync *sync);

/* tree.c: which two, and when */
bool tree_open(void);
bool tree_first(void);
void tree_last(void);

/* record.c */
void record_write(void);
void record_alone(void);

/* init.c */
void init_before(void);
void init_after(void);
void finalize_before(void);
void complain(const char *problem, const char *hint);

#endif
