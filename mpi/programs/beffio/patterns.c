/* The 43 patterns, their shares of the time, and where their data lie. */
#include "beffio.h"

/* The largest chunk, M_PART of the original. */
enum { LARGEST = -1 };

/* Numbers of the first patterns of types 1 and 2. */
enum { FIRST_SHARED = 9, FIRST_SEPARATE = 17 };

typedef struct {
    int64_t chunk, call; /* call 0: the chunk */
    int units;
} Row;

static const Row SCATTERED[] = {
    {MIB, MIB, 0},
    {LARGEST, 0, 4},
    {MIB, 2 * MIB, 4},
    {MIB, MIB, 4},
    {32 * KIB, MIB, 2},
    {KIB, MIB, 2},
    {32 * KIB + 8, MIB + 256, 2},
    {KIB + 8, MIB + 8 * KIB, 2},
    {MIB + 8, 0, 2},
};
static const Row ORDERED[] = {
    {MIB, 0, 0}, {LARGEST, 0, 4},      {MIB, 0, 2},     {32 * KIB, 0, 1},
    {KIB, 0, 1}, {32 * KIB + 8, 0, 1}, {KIB + 8, 0, 1}, {MIB + 8, 0, 2},
};
static const Row CONTIGUOUS[] = {
    {MIB, 0, 0}, {LARGEST, 0, 2},      {MIB, 0, 2},     {32 * KIB, 0, 1},
    {KIB, 0, 1}, {32 * KIB + 8, 0, 1}, {KIB + 8, 0, 1}, {MIB + 8, 0, 2},
};

/* A 128th of the memory in whole MiB, so a multiple of 8 KiB; at most 1 GiB, as the memory is at
 * most 128 GiB. */
int64_t largest_chunk(int64_t memory) {
    const int64_t share = memory / MIB * (MIB / 128);
    return share > 2 * MIB ? share : 2 * MIB;
}

static void add(Run *run, int type, int *number, const Row *row) {
    const int64_t chunk = row->chunk == LARGEST ? largest_chunk(run->options.memory) : row->chunk;
    const Pattern pattern = {.number = (*number)++,
                             .type = type,
                             .chunk = chunk,
                             .call = row->call == 0 ? chunk : row->call,
                             .units = row->units};
    if (run->options.types[type]) {
        run->patterns[run->count++] = pattern;
        run->units += pattern.units;
    }
}

/* All patterns of the chosen types, numbered as in the original. */
void patterns_make(Run *run) {
    static const struct {
        const Row *rows;
        size_t count;
        bool filled;
    } TABLE[TYPES] = {
        {SCATTERED, sizeof SCATTERED / sizeof *SCATTERED, false},
        {ORDERED, sizeof ORDERED / sizeof *ORDERED, false},
        {CONTIGUOUS, sizeof CONTIGUOUS / sizeof *CONTIGUOUS, false},
        {CONTIGUOUS, sizeof CONTIGUOUS / sizeof *CONTIGUOUS, true},
        {CONTIGUOUS, sizeof CONTIGUOUS / sizeof *CONTIGUOUS, true},
    };
    static const Row FILL = {0, 0, 0}; /* up to the end of the segment */
    int number = 0;
    for (int type = 0; type < TYPES; type++) {
        for (size_t i = 0; i < TABLE[type].count; i++) {
            add(run, type, &number, &TABLE[type].rows[i]);
        }
        if (TABLE[type].filled) {
            add(run, type, &number, &FILL);
        }
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Calls of the n-th pattern of types 3 and 4: as many as type 2 made with the same chunk, but
 * no more than type 0 wrote chunks, or than ten times the calls of type 1. Types 0 to 2 are all
 * there, so that patterns lie at their numbers. */
static int64_t calls_in_segment(const Run *run, int place) {
    const Done *done = run->done[WRITE];
    const int scatter = place < 2 ? place : place + 1; /* not the calls of two chunks of 1 MiB */
    const Pattern *p = &run->patterns[scatter];
    const int64_t chunks = done[scatter].calls * (p->call / p->chunk);
    return least(chunks,
                 least(10 * done[FIRST_SHARED + place].calls, done[FIRST_SEPARATE + place].calls));
}

/* Before the first write of a type: types 3 and 4 are as long as types 0 to 2 became in their time,
 * and a segment is whole MiB. */
void patterns_place(Run *run, int type) {
    if (type < SEGMENTED) {
        return;
    }
    int64_t end = 0;
    int place = 0;
    for (int i = 0; i < run->count; i++) {
        Pattern *p = &run->patterns[i];
        if (p->type != type) {
            continue;
        }
        p->base = end;
        if (p->call == 0) { /* what fills up, the last one */
            p->chunk = p->call = (end + MIB - 1) / MIB * MIB - end;
            p->counted = p->call > 0 ? 1 : ABSENT;
        } else {
            p->counted = calls_in_segment(run, place++);
        }
        end += p->counted == ABSENT ? 0 : p->counted * p->call;
    }
    run->segment = end;
}

/* While a type is first written: the next pattern begins where the last one ended. */
void patterns_follow(Run *run, int type) {
    int64_t end = 0;
    for (int i = 0; i < run->count && type < SEGMENTED; i++) {
        Pattern *p = &run->patterns[i];
        if (p->type == type) {
            p->base = end;
            end += run->done[WRITE][i].calls * p->call * (type == SEPARATE ? 1 : run->ranks);
        }
    }
}

/* Seconds that one pattern has for its first writing; the other methods are given as much. */
double patterns_share(const Run *run, const Pattern *pattern) {
    return run->options.time / METHODS * pattern->units / run->units;
}

/* Where in the file the n-th chunk of a call of this process lies. */
int64_t patterns_offset(const Run *run, const Pattern *p, int64_t call, int64_t block) {
    const int64_t ranks = run->ranks, rank = run->rank;
    switch (p->type) {
    case SCATTER:
        return p->base + ((call * (p->call / p->chunk) + block) * ranks + rank) * p->chunk;
    case SHARED:
        return p->base + (call * ranks + rank) * p->chunk;
    case SEPARATE:
        return p->base + call * p->chunk;
    default:
        return rank * run->segment + p->base + call * p->chunk;
    }
}
