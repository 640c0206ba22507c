// The ranking of IS: how many keys are less than each value.
#ifndef IS_H
#define IS_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST_RANKS = 256, MOST_BUCKETS = 1 << 10 };

struct ranking {
    int max_log, shift;    // keys are under 2^max_log; key >> shift is the bucket
    int buckets, from, to; // all; this rank ranks those in [from, to)
    int64_t all;           // keys of all ranks
    int64_t first_key;     // index of this rank's first key among all
    int32_t n;             // this rank's keys
    int32_t room;          // of `received`
    int32_t *key;          // [n]
    int32_t *grouped;      // [n]: the keys by bucket
    int32_t *received;     // this rank's buckets, by sender; alone: the same as `grouped`
    int32_t *counts;       // [ranks][buckets]: keys of each rank in each bucket
    int32_t *at;           // [ranks][buckets]: where each begins in `received`
    int32_t *first;        // [buckets + 1]: keys of all ranks in all lesser buckets
    int32_t *next;         // [threads][buckets]: where each thread puts its next key of a bucket
    int32_t *rank;         // [2^max_log]: keys less than each value, of the values in [from, to)
    int32_t *sorted;       // [room]: for the last verification
};

// Ranks the keys as they are now: sends them to the ranks of their buckets, counts them there.
void is_rank(struct ranking *ranking);

// Sorts the ranked keys by their ranks alone; whether they are then in order, all there, and in
// order with the next rank's.
bool is_sorted(struct ranking *ranking);

#endif
