// EP, "embarrassingly parallel": pairs of Gaussian deviates by the polar method, counted in square
// annuli (RNR-94-007, section 2.2.1). Ranks and threads take batches of 2^16 pairs; only the sums
// and ten counts are communicated.
#include <math.h>
#include <stdio.h>

#include "comm.h"
#include "nas.h"

enum { ANNULI = 10, BATCH_LOG = 16, BLOCK = 1 << 10 };

#define EP_SEED 271828183U
#define TOLERANCE 1e-8

// 2^log2_pairs pairs; the sums of the specification (A, B) and of NPB (S, W).
static const struct size {
    int log2_pairs;
    double sum_x, sum_y;
} sizes[CLASSES] = {
    [CLASS_S] = {24, -3.247834652034740e+3, -6.958407078382297e+3},
    [CLASS_W] = {25, -2.863319731645753e+3, -6.320053679109499e+3},
    [CLASS_A] = {28, -4.295875165629892e+3, -1.580732573678431e+4},
    [CLASS_B] = {30, 4.033815542441498e+4, -2.660669192809235e+4},
};

struct sums {
    double x, y;
    double counts[ANNULI];
};

// The pairs of a block of 2 × BLOCK numbers, which are in (0, 1).
static void block(const double *numbers, struct sums *sums) {
    for (int i = 0; i < BLOCK; i++) {
        const double x = 2.0 * numbers[2 * i] - 1.0, y = 2.0 * numbers[2 * i + 1] - 1.0;
        const double t = x * x + y * y;
        if (t > 1.0) continue;
        const double factor = sqrt(-2.0 * log(t) / t);
        const double gx = x * factor, gy = y * factor;
        sums->counts[(int)fmax(fabs(gx), fabs(gy))] += 1.0;
        sums->x += gx;
        sums->y += gy;
    }
}

static void batch(uint64_t index, struct sums *sums) {
    double numbers[2 * BLOCK];
    uint64_t x = nas_jump(EP_SEED, NAS_A, index << (BATCH_LOG + 1));
    struct sums here = {0};
    for (int i = 0; i < (1 << BATCH_LOG) / BLOCK; i++) {
        nas_randoms(2 * BLOCK, &x, NAS_A, numbers);
        block(numbers, &here);
    }
    sums->x += here.x;
    sums->y += here.y;
    for (int i = 0; i < ANNULI; i++) sums->counts[i] += here.counts[i];
}

static void all_batches(uint64_t batches, struct sums *sums) {
    const uint64_t rank = (uint64_t)comm_rank(), ranks = (uint64_t)comm_size();
    const uint64_t from = batches * rank / ranks, to = batches * (rank + 1) / ranks;
#pragma omp parallel
    {
        struct sums mine = {0};
#pragma omp for schedule(static) nowait
        for (uint64_t index = from; index < to; index++) batch(index, &mine);
#pragma omp critical
        {
            sums->x += mine.x;
            sums->y += mine.y;
            for (int i = 0; i < ANNULI; i++) sums->counts[i] += mine.counts[i];
        }
    }
    comm_sum(&sums->x, 1);
    comm_sum(&sums->y, 1);
    comm_sum(sums->counts, ANNULI);
}

static const char *refuses(enum nas_class class, int ranks) {
    const int batches = 1 << (sizes[class].log2_pairs - BATCH_LOG);
    return ranks > batches ? "more ranks than batches of pairs" : NULL;
}

static void run(enum nas_class class, struct nas_result *result) {
    const struct size *size = &sizes[class];
    struct sums sums = {0};
    const double begin = nas_begin();
    all_batches(UINT64_C(1) << (size->log2_pairs - BATCH_LOG), &sums);
    result->seconds = nas_since(begin);
    result->operations = ldexp(1.0, size->log2_pairs + 1);
    snprintf(result->size, sizeof result->size, "%.0f", result->operations);
    const bool x = nas_agrees(result, "sum x", sums.x, size->sum_x, TOLERANCE);
    const bool y = nas_agrees(result, "sum y", sums.y, size->sum_y, TOLERANCE);
    double pairs = 0;
    for (int i = 0; i < ANNULI; i++) {
        pairs += sums.counts[i];
        nas_detail(result, " count %d  = %15.0f\n", i, sums.counts[i]);
    }
    nas_detail(result, " pairs    = %15.0f\n", pairs);
    result->verified = x && y;
}

const struct nas_kernel nas_kernel = {
    .name = "EP", .operation = "Random numbers generated", .refuses = refuses, .run = run};
