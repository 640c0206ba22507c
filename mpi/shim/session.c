/* One rank asks another for its time. The server opens with a byte that says whether it has any; in
 * the end, the client says with a byte that it is done, and the server with another that it heard. */
#include "shim.h"

#include <stdio.h>

/* A message of the end or the beginning of a session. */
enum { UNABLE = 0, ABLE = 1, OVER = 2 };

/* A client that says nothing for so long, beyond its own patience, is gone. */
#define GONE_NS 1000000000ULL

/* Without an answer for so long, both sides may be on one processor. */
#define LATE_NS 50000

/* Each phase has its own tags, so that what is left of one is not taken for the next. */
static int tag(int phase, bool from_server) { return 2 * phase + (from_server ? 1 : 2); }

static void answer(Post *post, ullage_server *server, Sync *sync) {
    const uint64_t t2 = ullage_global_known_ns();
    const bool awake = post_awake(post, ullage_clock_ordered());
    uint8_t message[ULLAGE_MESSAGE_LENGTH];
    ullage_standing standing;
    uint64_t now_ns = 0;
    if (ullage_server_receive(server, post->buffer, (size_t)post->length, t2) != 1) {
        return;
    }
    (void)ullage_global_serve(&now_ns, &standing);
    standing.awake = awake;
    if (ullage_server_answer(server, ullage_global_known_ns(), &standing, message) == ULLAGE_OK &&
        post_send(post, message, (int)sizeof message)) {
        sync->served++;
    }
}

void session_serve(MPI_Comm comm, int peer, int phase, bool able, Sync *sync) {
    Post post;
    post_open(&post, comm, peer, tag(phase, true), tag(phase, false));
    const uint8_t opening = able ? ABLE : UNABLE, closing = OVER;
    ullage_server *server = ullage_server_new(shim.common.token);
    const uint64_t patience_ns = shim.common.rules.patience_ns + GONE_NS;
    uint64_t heard_ns = ullage_clock_ordered();
    bool open = post_send(&post, &opening, 1) && able;
    while (open) {
        if (post_look(&post)) {
            open = post.length != 1;
            if (open) {
                answer(&post, server, sync);
            }
            heard_ns = ullage_clock_ordered();
        } else {
            const uint64_t now_ns = ullage_clock_ordered();
            post.empty_ns = now_ns;
            open = now_ns - heard_ns < patience_ns;
            post_relax(now_ns - heard_ns);
        }
    }
    if (post.length == 1) {
        (void)post_send(&post, &closing, 1);
    }
    post_close(&post);
    sync->messages += post.messages;
    ullage_server_free(server);
}

/* Until the client has what it wants. Returns a code of the clock's. */
static int exchange(Post *post, ullage_client *client, Sync *sync) {
    ullage_action action;
    uint64_t sent_ns = 0;
    bool left = false;
    for (;;) {
        const uint64_t now_ns = ullage_clock_ordered();
        const int code = ullage_client_poll(client, now_ns, &action);
        if (code != ULLAGE_OK) {
            return code;
        }
        if (action.kind == ULLAGE_DONE) {
            sync->last_ns = now_ns - sent_ns;
            return action.result;
        }
        if (action.kind == ULLAGE_SEND) {
            sent_ns = now_ns;
            left = false;
            if (!post_send(post, action.message, (int)sizeof action.message)) {
                return ULLAGE_NO_ANSWER;
            }
        } else if (post_look(post)) {
            const uint64_t came_ns = ullage_clock_ordered();
            (void)ullage_client_receive(client, post->buffer, (size_t)post->length, came_ns,
                                        post_awake(post, came_ns));
        } else if (!left && now_ns - sent_ns > LATE_NS) {
            /* Only this side and only once: two that wait for each other's waking up are slower. */
            left = true;
            post->empty_ns = 0;
            post_leave();
        } else {
            post->empty_ns = now_ns;
            post_relax(now_ns - sent_ns);
        }
    }
}

/* Who shares a clock has it proved: what the exchange says must not exclude that both agree. A few
 * will do. */
static const char *prove(Post *post, Sync *sync) {
    ullage_rules rules = shim.common.rules;
    rules.dropped = 1;
    rules.messages = rules.messages < 20 ? rules.messages : 20;
    ullage_client *client = ullage_client_new(&rules, shim.common.token, ullage_clock_ordered());
    const int code = exchange(post, client, sync);
    const char *problem = code == ULLAGE_OK ? NULL : ullage_clock_strerror(code);
    if (code == ULLAGE_OK && ullage_client_outcome(client, &sync->outcome) == ULLAGE_OK) {
        const ullage_fix *fix = &sync->outcome.fix;
        ullage_instant own;
        (void)ullage_global_at(fix->local_ns, &own);
        const int64_t shared_ns = (int64_t)(own.ns - own.local_ns);
        const int64_t off_ns = fix->offset_ns - shared_ns;
        if ((uint64_t)(off_ns < 0 ? -off_ns : off_ns) > fix->half_ns) {
            problem = "the shared clock is not the leader's";
        }
    }
    ullage_client_free(client);
    return problem;
}

static const char *synchronise(Post *post, Sync *sync) {
    ullage_drift drift;
    (void)ullage_drift_usual(&drift);
    const uint32_t disruptions = ullage_global_disruptions();
    ullage_client *client =
        ullage_client_new(&shim.common.rules, shim.common.token, ullage_clock_ordered());
    int code = exchange(post, client, sync);
    if (code == ULLAGE_OK) {
        (void)ullage_client_outcome(client, &sync->outcome);
        if (sync->outcome.standing.hard_ns == UINT64_MAX) {
            code = ULLAGE_UNSYNCHRONISED;
        } else {
            code = ullage_global_learn(client, &drift, disruptions);
        }
    }
    ullage_client_free(client);
    return code == ULLAGE_OK ? NULL : ullage_clock_strerror(code);
}

/* Takes what is still on its way, up to the server's closing byte: nothing is left for MPI to find. */
static void close_session(Post *post) {
    const uint8_t closing = OVER;
    bool more = post_send(post, &closing, 1);
    while (more) {
        more = post_wait(post, GONE_NS) && post->length != 1;
    }
}

const char *session_ask(MPI_Comm comm, int peer, int phase, bool shared, Sync *sync) {
    const char *problem = "the turn to synchronise did not come in time";
    Post post;
    post_open(&post, comm, peer, tag(phase, false), tag(phase, true));
    if (post_wait(&post, shim.common.deadline_ns)) {
        problem = "the rank to ask has no global time itself";
        if (post.length == 1 && post.buffer[0] == ABLE) {
            problem = shared ? prove(&post, sync) : synchronise(&post, sync);
            if (problem != NULL && shared && !shim.first.done) {
                shim.way = MESSAGES;
                problem = synchronise(&post, sync);
            }
            close_session(&post);
        }
    }
    post_close(&post);
    sync->messages += post.messages;
    sync->problem = problem;
    sync->done = problem == NULL;
    return problem;
}
