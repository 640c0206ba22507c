/* Data that tell of their place: each 8 bytes from seed, file, place and whether rewritten. */
#include "beffio.h"

/* Odd, so that no two words of a file are equal: the golden ratio, as in splitmix64 (G. Steele et
 * al., OOPSLA 2014). */
static const uint64_t STEP = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* The first word of a chunk; every size is a multiple of 8. */
static uint64_t first(const Run *run, const Pattern *p, int64_t offset, bool again) {
    const uint64_t file = p->type == SEPARATE ? (uint64_t)run->rank : 0;
    const uint64_t which = file * 2 * TYPES + (uint64_t)p->type * 2 + (again ? 1 : 0);
    return mixed(mixed(run->options.seed) + which) + (uint64_t)(offset / 8) * STEP;
}

void data_fill(const Run *run, const Pattern *p, int64_t call, bool again, void *memory) {
    uint64_t *word = memory;
    const int64_t length = p->chunk / 8;
    for (int64_t block = 0; block < p->call / p->chunk; block++) {
        const uint64_t start = first(run, p, patterns_offset(run, p, call, block), again);
        for (int64_t i = 0; i < length; i++) {
            word[i] = start + (uint64_t)i * STEP;
        }
        word += length;
    }
}

bool data_right(const Run *run, const Pattern *p, int64_t call, const void *memory,
                int64_t *where) {
    const uint64_t *word = memory;
    const int64_t length = p->chunk / 8;
    for (int64_t block = 0; block < p->call / p->chunk; block++) {
        const int64_t offset = patterns_offset(run, p, call, block);
        const uint64_t start = first(run, p, offset, true);
        uint64_t wrong = 0;
        for (int64_t i = 0; i < length; i++) {
            wrong |= word[i] ^ (start + (uint64_t)i * STEP);
        }
        if (wrong != 0) {
            int64_t i = 0;
            while (word[i] == start + (uint64_t)i * STEP) {
                i++;
            }
            *where = offset + i * 8;
            return false;
        }
        word += length;
    }
    return true;
}
