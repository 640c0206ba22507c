// NPB's pseudo-random numbers.
#include "nas.h"

uint64_t nas_power(uint64_t a, uint64_t n) {
    uint64_t power = 1;
    for (; n; n >>= 1, a = (a * a) & NAS_MASK)
        if (n & 1) power = (power * a) & NAS_MASK;
    return power;
}

uint64_t nas_jump(uint64_t x, uint64_t a, uint64_t n) { return (x * nas_power(a, n)) & NAS_MASK; }

void nas_randoms(size_t n, uint64_t *x, uint64_t a, double *numbers) {
    // Four streams, each four steps at a time: the products do not wait for one another.
    const uint64_t a2 = a * a & NAS_MASK, a3 = a2 * a & NAS_MASK, a4 = a2 * a2 & NAS_MASK;
    uint64_t last = *x, y[4] = {last * a, last * a2, last * a3, last * a4};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++) {
            const uint64_t now = y[j] & NAS_MASK;
            numbers[i + (size_t)j] = (double)(int64_t)now * NAS_SCALE;
            y[j] = now * a4;
            last = now;
        }
    *x = last;
    for (; i < n; i++) numbers[i] = nas_random(x, a);
}
