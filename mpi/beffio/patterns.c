/* The 43 patterns, their shares of the time, and where their data lie. */
#include "beffio.h"

/* The largest chunk, M_PART of the publication. */
enum { LARGEST = -1 };

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
    {MIB + 8, 2 * MIB + 16, 2},
};
static const Row ORDERED[] = {
    {MIB, 0, 0}, {LARGEST, 0, 4},      {MIB, 0, 2},     {32 * KIB, 0, 1},
    {KIB, 0, 1}, {32 * KIB + 8, 0, 1}, {KIB + 8, 0, 1}, {MIB + 8, 0, 2},
};
static const Row CONTIGUOUS[] = {
    {MIB, 0, 0}, {LARGEST, 0, 2},      {MIB, 0, 2},     {32 * KIB, 0, 1},
    {KIB, 0, 1}, {32 * KIB + 8, 0, 1}, {KIB + 8, 0, 1}, {MIB + 8, 0, 2},
};

int64_t largest_chunk(int64_t memory) {
    const int64_t share = memory / 128 / MIB * MIB;
    return share > 2 * MIB ? share : 2 * MIB;
}

static void add(Run *run, int type, int *number, const Row *row) {
    const int64_t chunk = row->chunk == LARGEST ? largest_chunk(run->options.memory) : row->chunk;
    const Pattern made = {.number = (*number)++,
                          .type = type,
                          .chunk = chunk,
                          .call = row->call == 0 ? chunk : row->call,
                          .units = row->units};
    if (run->options.types[type]) {
        run->patterns[run->count++] = made;
        run->units += made.units;
    }
}

/* All patterns of the chosen types, numbered as published. */
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

/* The calls that each process made with a chunk in type 2. */
static int64_t calls_apart(const Run *run, const Pattern *like) {
    for (int i = 0; i < run->count; i++) {
        const Pattern *p = &run->patterns[i];
        if (p->type == SEPARATE && p->chunk == like->chunk && p->units == like->units) {
            return run->done[WRITE][i].calls;
        }
    }
    return 1;
}

/* Before the first write of a type: types 3 and 4 are as long as type 2 became in its time, and a
 * segment is whole MiB. */
void patterns_place(Run *run, int type) {
    if (type < SEGMENTED) {
        return;
    }
    int64_t end = 0;
    for (int i = 0; i < run->count; i++) {
        Pattern *p = &run->patterns[i];
        if (p->type != type) {
            continue;
        }
        p->base = end;
        if (p->call == 0) { /* what fills up, the last one */
            p->chunk = p->call = (end + MIB - 1) / MIB * MIB - end;
            p->most = p->call > 0 ? 1 : -1;
        } else {
            p->most = calls_apart(run, p);
        }
        end += p->most > 0 ? p->most * p->call : 0;
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

/* Seconds that one pattern has with one access method. */
double patterns_share(const Run *run, const Pattern *pattern) {
    return run->options.time / METHODS * pattern->units / run->units;
}

/* Where in the file the so-manieth chunk of a call of this process lies. */
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
