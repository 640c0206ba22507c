// Ranking by buckets: group, send each rank its buckets, count within a bucket (NPB's own method
// for MPI; with one rank nothing is sent, and the threads share the buckets).
#include <omp.h>

#include "comm.h"
#include "is.h"
#include "nas.h"

// Each thread's number of keys in each bucket, of its equal part of the keys.
static void count(const struct ranking *r, int32_t *mine, int32_t from, int32_t to) {
    memset(mine, 0, sizeof *mine * (size_t)r->buckets);
    for (int32_t i = from; i < to; i++) mine[r->key[i] >> r->shift]++;
}

// From counts to places: each thread's first place in each bucket. The sums are this rank's counts.
static void place(struct ranking *r, int threads, int32_t *sums) {
    int32_t at = 0;
    for (int b = 0; b < r->buckets; b++) {
        const int32_t begin = at;
        for (int t = 0; t < threads; t++) {
            int32_t *const here = &r->next[t * r->buckets + b];
            const int32_t keys = *here;
            *here = at;
            at += keys;
        }
        sums[b] = at - begin;
    }
}

static void group(struct ranking *r, int32_t *sums) {
#pragma omp parallel
    {
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const int32_t from = (int32_t)((int64_t)r->n * thread / threads);
        const int32_t to = (int32_t)((int64_t)r->n * (thread + 1) / threads);
        int32_t *const mine = r->next + thread * r->buckets;
        count(r, mine, from, to);
#pragma omp barrier
#pragma omp single
        place(r, threads, sums);
        for (int32_t i = from; i < to; i++) {
            const int32_t key = r->key[i];
            r->grouped[mine[key >> r->shift]++] = key;
        }
    }
}

// The first bucket of a rank: so that all ranks have about as many keys.
static int border(const struct ranking *r, int rank) {
    const int64_t keys = r->all * rank / comm_size();
    int b = 0;
    while (b < r->buckets && r->first[b] < keys) b++;
    return rank == comm_size() ? r->buckets : b;
}

static int32_t in_buckets(const struct ranking *r, int rank, int from, int to) {
    int32_t keys = 0;
    for (int b = from; b < to; b++) keys += r->counts[rank * r->buckets + b];
    return keys;
}

// Sends each rank its buckets; `at` tells where each sender's part of a bucket begins.
static void exchange(struct ranking *r) {
    int n_send[MOST_RANKS], at_send[MOST_RANKS], n_receive[MOST_RANKS], at_receive[MOST_RANKS];
    const int ranks = comm_size(), me = comm_rank();
    r->from = border(r, me);
    r->to = border(r, me + 1);
    int32_t sent = 0, received = 0;
    for (int rank = 0; rank < ranks; rank++) {
        n_send[rank] = in_buckets(r, me, border(r, rank), border(r, rank + 1));
        n_receive[rank] = in_buckets(r, rank, r->from, r->to);
        at_send[rank] = sent;
        at_receive[rank] = received;
        sent += n_send[rank];
        for (int b = r->from; b < r->to; b++) {
            r->at[rank * r->buckets + b] = received;
            received += r->counts[rank * r->buckets + b];
        }
    }
    if (received > r->room) nas_fail("%d keys have no room in %d", received, r->room);
    if (r->received != r->grouped)
        comm_alltoallv_ints(r->grouped, n_send, at_send, r->received, n_receive, at_receive);
}

// Ranks of the values of one bucket.
static void rank_bucket(struct ranking *r, int bucket, int ranks) {
    const int32_t values = 1 << r->shift;
    int32_t *const rank = r->rank + ((size_t)bucket << r->shift);
    int32_t *const count_of = rank - ((size_t)bucket << r->shift);
    memset(rank, 0, sizeof *rank * (size_t)values);
    for (int s = 0; s < ranks; s++) {
        const int32_t *const keys = r->received + r->at[s * r->buckets + bucket];
        for (int32_t i = 0; i < r->counts[s * r->buckets + bucket]; i++) count_of[keys[i]]++;
    }
    int32_t less = r->first[bucket];
    for (int32_t v = 0; v < values; v++) {
        const int32_t keys = rank[v];
        rank[v] = less;
        less += keys;
    }
}

void is_rank(struct ranking *r) {
    const int ranks = comm_size();
    int32_t sums[MOST_BUCKETS];
    group(r, sums);
    comm_gather_ints(sums, r->counts, r->buckets);
    r->first[0] = 0;
    for (int b = 0; b < r->buckets; b++) {
        r->first[b + 1] = r->first[b];
        for (int s = 0; s < ranks; s++) r->first[b + 1] += r->counts[s * r->buckets + b];
    }
    exchange(r);
#pragma omp parallel for schedule(dynamic, 8)
    for (int b = r->from; b < r->to; b++) rank_bucket(r, b, ranks);
}

// Puts the keys of one bucket at their ranks; how many ranks are not of this bucket.
static int32_t sort_bucket(struct ranking *r, int bucket, int ranks) {
    const int32_t base = r->first[r->from], begin = r->first[bucket], end = r->first[bucket + 1];
    int32_t outside = 0;
    for (int32_t i = begin; i < end; i++) r->sorted[i - base] = -1;
    for (int s = 0; s < ranks; s++) {
        const int32_t *const keys = r->received + r->at[s * r->buckets + bucket];
        for (int32_t i = 0; i < r->counts[s * r->buckets + bucket]; i++) {
            const int32_t to = r->rank[keys[i]]++;
            if (to < begin || to >= end)
                outside++;
            else
                r->sorted[to - base] = keys[i];
        }
    }
    return outside;
}

bool is_sorted(struct ranking *r) {
    const int ranks = comm_size(), me = comm_rank();
    const int32_t keys = r->first[r->to] - r->first[r->from];
    int32_t wrong = 0;
#pragma omp parallel for schedule(dynamic, 8) reduction(+ : wrong)
    for (int b = r->from; b < r->to; b++) wrong += sort_bucket(r, b, ranks);
#pragma omp parallel for reduction(+ : wrong)
    for (int32_t i = 0; i < keys; i++)
        wrong += r->sorted[i] < 0 || (i > 0 && r->sorted[i] < r->sorted[i - 1]);
    // A rank's buckets are greater than those of the ranks before it: what is its own must be too.
    const int32_t low = (int32_t)((int64_t)r->from << r->shift);
    const int64_t high = (int64_t)r->to << r->shift;
    if (keys > 0) wrong += r->sorted[0] < low || r->sorted[keys - 1] >= high;
    wrong += me == ranks - 1 && r->first[r->to] != r->all;
    comm_sum_ints(&wrong, 1);
    return wrong == 0;
}
