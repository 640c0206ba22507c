/* Which two ranks synchronise, and when. Leaders do so along a binomial tree (or all with rank 0);
 * then each serves the ranks of its host, one after the other, for two pairs at a time would disturb
 * each other. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* Of their tags. */
enum { FIRST_HEADS, FIRST_HOST, LAST_PROOF, LAST_HEADS, LAST_HOST };
/* Tags of their own, beyond those of all phases. */
enum { READY = 100, VERDICT };

/* What a leader tells the ranks of its host. */
typedef struct {
    uint8_t share[ULLAGE_SHARE_LENGTH];
    int32_t able;
    int32_t shared;
} Offer;

static bool good(int code) { return code == MPI_SUCCESS; }

static bool share_settings(void) {
    if (shim.rank == 0) {
        Common *common = &shim.common;
        if (!settings_random(common->token, sizeof common->token) ||
            !settings_random(&common->run, sizeof common->run)) {
            memset(&common->rules, 0, sizeof common->rules);
        }
        (void)ullage_global_lead();
        common->origin_ns = ullage_global_ns();
        shim.way = ROOT;
    }
    return post_tell(&shim.common, sizeof shim.common, shim.world) &&
           shim.common.rules.messages > 0;
}

/* One value of every rank of a communicator; null if there is no memory. */
static int *all_of(MPI_Comm comm, int own) {
    int size = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    (void)PMPI_Comm_size(comm, &size);
    int *all = calloc((size_t)size, sizeof *all);
    if (all != NULL &&
        !post_collective(PMPI_Iallgather(&own, 1, MPI_INT, all, 1, MPI_INT, comm, &request),
                         &request)) {
        free(all);
        all = NULL;
    }
    return all;
}

static bool find_leaders(void) {
    shim.leaders = all_of(shim.world, shim.host_rank == 0);
    for (int rank = 0; rank < shim.size && shim.leaders != NULL; rank++) {
        if (shim.leaders[rank]) {
            shim.leaders[shim.leader_count++] = rank;
        }
    }
    return shim.leaders != NULL;
}

static bool find_host(void) {
    if (!good(PMPI_Comm_split_type(shim.world, MPI_COMM_TYPE_SHARED, shim.rank, MPI_INFO_NULL,
                                   &shim.host)) ||
        !good(PMPI_Comm_size(shim.host, &shim.host_size))) {
        return false;
    }
    (void)PMPI_Comm_set_errhandler(shim.host, MPI_ERRORS_RETURN);
    shim.crowded = settings_crowded(shim.host, shim.host_size);
    if (shim.common.topology != TWO_LEVEL) {
        (void)PMPI_Comm_free(&shim.host);
        if (!good(PMPI_Comm_dup(MPI_COMM_SELF, &shim.host))) {
            return false;
        }
    }
    shim.host_ranks = all_of(shim.host, shim.rank);
    return shim.host_ranks != NULL && good(PMPI_Comm_rank(shim.host, &shim.host_rank)) &&
           good(PMPI_Comm_size(shim.host, &shim.host_size)) && find_leaders();
}

/* MPI may read and write these after whoever waited has given up. */
static uint8_t ready = 1, verdict;

/* Rank 0 decides for all whether all are there. A barrier cannot: who gives up on one has posted it, so
 * that one who was stopped meanwhile passes it, and waits without an end for what the others never
 * begin. `start_ns` is before any other rank can have begun to wait for the verdict. */
static bool decide(uint64_t start_ns) {
    const uint64_t most_ns = 2 * shim.common.deadline_ns;
    uint64_t age_ns = 0;
    verdict = 1;
    for (int peer = 1; peer < shim.size && verdict; peer++) {
        Post post;
        post_open(&post, shim.world, MPI_ANY_SOURCE, VERDICT, READY);
        age_ns = ullage_clock_ordered() - start_ns;
        verdict = age_ns < most_ns && post_wait(&post, most_ns - age_ns);
        post_close(&post);
    }
    verdict = verdict && ullage_clock_ordered() - start_ns < most_ns;
    for (int peer = 1; peer < shim.size; peer++) {
        MPI_Request request = MPI_REQUEST_NULL;
        /* Not waited for: one that is late must not keep the verdict from the others. */
        if (good(PMPI_Isend(&verdict, 1, MPI_BYTE, peer, VERDICT, shim.world, &request))) {
            (void)PMPI_Request_free(&request);
        }
    }
    return verdict;
}

/* It waits longer than rank 0 may take for a good verdict; without one, rank 0 has none. */
static bool obey(void) {
    Post post;
    MPI_Request request = MPI_REQUEST_NULL;
    post_open(&post, shim.world, 0, READY, VERDICT);
    if (!good(PMPI_Isend(&ready, 1, MPI_BYTE, 0, READY, shim.world, &request))) {
        return false;
    }
    const bool told = post_finish(&request, shim.common.deadline_ns) &&
                      post_wait(&post, 3 * shim.common.deadline_ns);
    const bool stay = told && post.length == 1 && post.buffer[0] == 1;
    post_close(&post);
    return stay;
}

/* A rank that does not have this library never comes. One that is late finds that others have given up,
 * which those who came in between cannot know: nobody goes on without all. */
static const char *assemble(void) {
    const uint64_t start_ns = ullage_clock_ordered();
    MPI_Request request = MPI_REQUEST_NULL;
    if (!good(PMPI_Comm_idup(MPI_COMM_WORLD, &shim.world, &request)) ||
        !post_finish(&request, shim.common.deadline_ns)) {
        return "not every rank has this library preloaded";
    }
    if (!(shim.rank == 0 ? decide(start_ns) : obey())) {
        return "another rank came so late that not all waited for it";
    }
    return NULL;
}

bool tree_open(void) {
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &shim.rank);
    (void)PMPI_Comm_size(MPI_COMM_WORLD, &shim.size);
    settings_read(&shim.common);
    shim.first.problem = assemble();
    if (shim.first.problem != NULL) {
        return false;
    }
    (void)PMPI_Comm_set_errhandler(shim.world, MPI_ERRORS_RETURN);
    if (!share_settings() || !find_host()) {
        shim.first.problem = "MPI or the system failed while synchronisation was prepared";
        return false;
    }
    settings_check_distortion();
    return true;
}

/* Serves whoever takes part: all do in the first synchronisation. */
static void serve(int peer, int phase, bool able, Sync *sync) {
    if (shim.ways == NULL || shim.ways[peer] == MESSAGES) {
        session_serve(shim.world, peer, phase, able, sync);
    }
}

static int place(void) {
    int place = 0;
    while (place < shim.leader_count - 1 && shim.leaders[place] < shim.rank) {
        place++;
    }
    return place;
}

static void heads(int phase, Sync *sync) {
    const int own = place(), count = shim.leader_count;
    bool able = own == 0;
    if (shim.common.topology == FLAT) {
        for (int peer = 1; peer < count && own == 0; peer++) {
            serve(shim.leaders[peer], phase, able, sync);
        }
        if (own > 0) {
            (void)session_ask(shim.world, shim.leaders[0], phase, false, sync);
        }
        return;
    }
    for (int step = 1; step < count; step *= 2) {
        if (own < step && own + step < count) {
            serve(shim.leaders[own + step], phase, able, sync);
        } else if (own >= step && own < 2 * step) {
            able = session_ask(shim.world, shim.leaders[own - step], phase, false, sync) == NULL;
        }
    }
}

static bool ways(void) {
    const uint8_t own = (uint8_t)shim.way;
    MPI_Request request = MPI_REQUEST_NULL;
    shim.ways = calloc((size_t)shim.size, 1);
    return shim.ways != NULL && post_collective(PMPI_Iallgather(&own, 1, MPI_BYTE, shim.ways, 1,
                                                                MPI_BYTE, shim.world, &request),
                                                &request);
}

/* The ranks of a host: those that read the leader's clock have it proved, the others ask. */
static void host_first(void) {
    Offer offer = {.able = shim.way != NOTHING, .shared = shim.common.share};
    if (shim.host_rank == 0 && offer.able) {
        offer.shared = offer.shared && ullage_global_encode(offer.share) == ULLAGE_OK;
    }
    if (!post_tell(&offer, sizeof offer, shim.host) || !offer.able) {
        shim.first.problem = shim.first.problem != NULL
                                 ? shim.first.problem
                                 : "the leader of this host has no global time itself";
        return;
    }
    if (shim.host_rank > 0) {
        const bool shared =
            offer.shared && ullage_global_adopt(offer.share, sizeof offer.share, NULL) == ULLAGE_OK;
        shim.way = shared ? SHARED : MESSAGES;
        if (session_ask(shim.world, shim.host_ranks[0], FIRST_HOST, shared, &shim.first) != NULL) {
            shim.way = NOTHING;
        }
        return;
    }
    for (int peer = 1; peer < shim.host_size; peer++) {
        session_serve(shim.world, shim.host_ranks[peer], FIRST_HOST, true, &shim.first);
    }
}

bool tree_first(void) {
    if (shim.host_rank == 0) {
        heads(FIRST_HEADS, &shim.first);
        if (shim.way != ROOT && shim.first.done) {
            shim.way = MESSAGES;
        }
    }
    if (shim.host_size > 1) {
        host_first();
    }
    return ways();
}

static void host_last(int phase, Way way) {
    if (shim.host_rank > 0 && shim.way == way) {
        (void)session_ask(shim.world, shim.host_ranks[0], phase, way == SHARED, &shim.last);
    }
    const bool able = shim.way == ROOT || way == SHARED || shim.last.done;
    for (int peer = 1; peer < shim.host_size && shim.host_rank == 0; peer++) {
        if (shim.ways[shim.host_ranks[peer]] == way) {
            session_serve(shim.world, shim.host_ranks[peer], phase, able, &shim.last);
        }
    }
}

static void correct(void) {
    Corrected *corrected = &shim.corrected;
    ullage_drift drift;
    ullage_correction *correction = NULL;
    ullage_correction_facts facts;
    ullage_instant halfway;
    (void)ullage_drift_usual(&drift);
    if (!shim.last.done || ullage_correction_new(&drift, &correction) != ULLAGE_OK) {
        return;
    }
    const ullage_fix *first = &shim.first.outcome.fix, *last = &shim.last.outcome.fix;
    const uint64_t apart_ns = last->local_ns - first->local_ns;
    (void)ullage_correction_facts_of(correction, &facts);
    (void)ullage_correction_at(correction, first->local_ns + apart_ns / 2, &halfway);
    *corrected = (Corrected){.drifted_ns = last->offset_ns - first->offset_ns,
                             .apart_ns = apart_ns,
                             .since_ns = first->local_ns + (uint64_t)first->offset_ns,
                             .bound_ns = halfway.bound_ns,
                             .hard_ns = halfway.hard_ns,
                             .residual_ns = facts.residual_ns,
                             .checked = facts.checked,
                             .valid = 1};
    if (ullage_global_rate(&corrected->rate_ppt, &corrected->unsure_ppt) != ULLAGE_OK) {
        corrected->unsure_ppt = UINT64_MAX;
    }
    ullage_correction_free(correction);
}

/* The same once more. Shared clocks are proved before their leader's line becomes another. */
void tree_last(void) {
    host_last(LAST_PROOF, SHARED);
    if (shim.host_rank == 0 && shim.way != NOTHING) {
        heads(LAST_HEADS, &shim.last);
    }
    host_last(LAST_HOST, MESSAGES);
    if (shim.way == MESSAGES) {
        correct();
    }
    Corrected leaders = shim.corrected;
    if (post_tell(&leaders, sizeof leaders, shim.host) && shim.way == SHARED) {
        shim.corrected = leaders;
    }
    (void)post_barrier();
}
