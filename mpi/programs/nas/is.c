// IS, "integer sort": ranks keys ten times, changing two before each (RNR-94-007, section 2.2.5;
// class sizes and test ranks of NPB 2 and 3). Five ranks are verified in each iteration, and in
// the end the ranks must sort all keys.
#include <omp.h>
#include <stdio.h>

#include "comm.h"
#include "is.h"
#include "nas.h"

enum { ITERATIONS = 10, TESTS = 5 };

// Test i: the rank of the key at index `at` is `rank` + sign × (iteration - late).
static const struct size {
    int keys_log, max_log, buckets_log;
    int32_t at[TESTS], rank[TESTS], sign[TESTS], late[TESTS];
} sizes[CLASSES] = {
    // clang-format off
    [CLASS_S] = {16, 11, 9,
                 {48427, 17148, 23627, 62548, 4431},
                 {0, 18, 346, 64917, 65463},
                 {1, 1, 1, -1, -1},
                 {0, 0, 0, 0, 0}},
    [CLASS_W] = {20, 16, 10,
                 {357773, 934767, 875723, 898999, 404505},
                 {1249, 11698, 1039987, 1043896, 1048018},
                 {1, 1, -1, -1, -1},
                 {2, 2, 0, 0, 0}},
    [CLASS_A] = {23, 19, 10,
                 {2112377, 662041, 5336171, 3642833, 4250760},
                 {104, 17523, 123928, 8288932, 8388264},
                 {1, 1, 1, -1, -1},
                 {1, 1, 1, 1, 1}},
    [CLASS_B] = {25, 21, 10,
                 {41869, 812306, 5102857, 18232239, 26860214},
                 {33422937, 10244, 59149, 33135281, 99},
                 {-1, 1, 1, -1, 1},
                 {0, 0, 0, 0, 0}},
    // clang-format on
};

// Keys are sums of four numbers: bell-shaped over [0, 2^max_log).
static void make_keys(struct ranking *r) {
    const double quarter = (double)(1 << (r->max_log - 2));
#pragma omp parallel
    {
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const int64_t from = (int64_t)r->n * thread / threads;
        const int64_t to = (int64_t)r->n * (thread + 1) / threads;
        uint64_t x = nas_jump(NAS_SEED, NAS_A, 4 * (uint64_t)(r->first_key + from));
        for (int64_t i = from; i < to; i++) {
            double sum = nas_random(&x, NAS_A);
            for (int j = 0; j < 3; j++) sum += nas_random(&x, NAS_A);
            r->key[i] = (int32_t)(quarter * sum);
        }
    }
}

static struct ranking make_ranking(const struct size *size) {
    const int rank = comm_rank(), ranks = comm_size(), buckets = 1 << size->buckets_log;
    const int64_t all = INT64_C(1) << size->keys_log, first = all * rank / ranks;
    const int32_t n = (int32_t)(all * (rank + 1) / ranks - first);
    // Ranks begin with whole buckets: no bucket has more than 2/3 of 4/buckets of all keys.
    const int32_t room = ranks == 1 ? n : (int32_t)(all / ranks + 4 * all / buckets + 1024);
    const size_t table = (size_t)buckets * (size_t)ranks;
    struct ranking r = {
        .max_log = size->max_log,
        .shift = size->max_log - size->buckets_log,
        .buckets = buckets,
        .all = all,
        .first_key = first,
        .n = n,
        .room = room,
        .key = nas_allocate((size_t)n, sizeof(int32_t)),
        .grouped = nas_allocate((size_t)n, sizeof(int32_t)),
        .counts = nas_allocate(table, sizeof(int32_t)),
        .at = nas_allocate(table, sizeof(int32_t)),
        .first = nas_allocate((size_t)buckets + 1, sizeof(int32_t)),
        .next = nas_allocate((size_t)buckets * (size_t)omp_get_max_threads(), sizeof(int32_t)),
        .rank = nas_allocate((size_t)1 << size->max_log, sizeof(int32_t)),
        .sorted = nas_allocate((size_t)room, sizeof(int32_t)),
    };
    r.received = ranks == 1 ? r.grouped : nas_allocate((size_t)room, sizeof(int32_t));
    make_keys(&r);
    return r;
}

// How many of the five test keys have the rank that the specification gives.
static int iterate(const struct size *size, struct ranking *r, int iteration) {
    int32_t tested[TESTS], right = 0;
    if (comm_rank() == 0) {
        r->key[iteration] = iteration;
        r->key[iteration + ITERATIONS] = (1 << size->max_log) - iteration;
    }
    for (int i = 0; i < TESTS; i++) {
        const int64_t here = size->at[i] - r->first_key;
        tested[i] = here >= 0 && here < r->n ? r->key[here] : 0;
    }
    comm_sum_ints(tested, TESTS);
    is_rank(r);
    for (int i = 0; i < TESTS; i++) {
        const int bucket = tested[i] >> r->shift;
        if (bucket < r->from || bucket >= r->to) continue;
        const int32_t expected = size->rank[i] + size->sign[i] * (iteration - size->late[i]);
        right += r->rank[tested[i]] == expected;
    }
    return right;
}

static const char *refuses(enum nas_class class, int ranks) {
    (void)class;
    return ranks > MOST_RANKS ? "at most 256 ranks" : NULL;
}

static void run(enum nas_class class, struct nas_result *result) {
    const struct size *size = &sizes[class];
    struct ranking ranking = make_ranking(size);
    iterate(size, &ranking, 1); // not timed: touches all memory
    int32_t right = 0;
    const double begin = nas_begin();
    for (int i = 1; i <= ITERATIONS; i++) right += iterate(size, &ranking, i);
    result->seconds = nas_since(begin);
    comm_sum_ints(&right, 1);
    const bool sorted = is_sorted(&ranking);
    result->iterations = ITERATIONS;
    result->operations = (double)ITERATIONS * (double)ranking.all;
    result->verified = sorted && right == TESTS * ITERATIONS;
    snprintf(result->size, sizeof result->size, "%lld", (long long)ranking.all);
    nas_detail(result, " ranks    = %d of %d right\n keys     = %s\n", right, TESTS * ITERATIONS,
               sorted ? "sorted" : "not sorted");
}

const struct nas_kernel nas_kernel = {
    .name = "IS", .operation = "keys ranked", .refuses = refuses, .run = run};
