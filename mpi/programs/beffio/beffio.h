/* beffio: the effective I/O bandwidth benchmark (b_eff_io) over MPI-IO, after release 2.1 of the
 * program of R. Rabenseifner (https://fs.hlrs.de/projects/par/mpi//b_eff_io/), as it is with its
 * option -rewrite. What is theirs and what is ours: ullage/workloads/mpi/b_eff_io.py.
 */
#ifndef BEFFIO_H
#define BEFFIO_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../give_up.h"

#define KIB INT64_C(1024)
#define MIB (INT64_C(1024) * KIB)

enum { OK = 0, IO_FAILED = 1, BAD_OPTION = 2, WRONG_DATA = 3 }; /* exit status */
enum { SCATTER, SHARED, SEPARATE, SEGMENTED, SEGMENTED_COLLECTIVE, TYPES };
enum { WRITE, REWRITE, READ, METHODS };
enum { MOST_PATTERNS = 43 };
enum { ABSENT = -1, BY_TIME = 0 }; /* in place of a count of calls */

typedef struct {
    double time;    /* s, scheduled for all of it */
    int64_t memory; /* B, of a process */
    const char *directory;
    bool types[TYPES];
    bool noshared; /* type 1 with individual file pointers */
    uint64_t seed;
    bool help;
} Options;

/* A pattern: what is repeated. */
typedef struct {
    int number, type;
    int64_t chunk;   /* contiguous bytes in the file */
    int64_t call;    /* contiguous bytes in memory, moved by one call of a process */
    int units;       /* share of the time; 0: one call */
    int64_t base;    /* where its data begin: in the file, or in each segment */
    int64_t counted; /* calls of the first writing: given by other patterns, BY_TIME or ABSENT */
} Pattern;

/* What became of a pattern with one access method. */
typedef struct {
    int64_t calls;  /* of each process */
    double seconds; /* until all processes were through, with the sync at the end */
} Done;

typedef struct {
    Options options;
    int rank, ranks;
    Pattern patterns[MOST_PATTERNS];
    int count, units;
    int64_t segment; /* B, of a process in the files of types 3 and 4 */
    Done done[METHODS][MOST_PATTERNS];
    double handling[METHODS][TYPES]; /* s: open, views, close */
    double wall;                     /* s, from the first open to the last close */
    unsigned char *buffer;
    int64_t capacity; /* B */
} Run;

/* options.c: false with a reason in `why`. */
bool options_parse(Options *options, int argc, char **argv, char *why, size_t size);
const char *options_help(void);

/* patterns.c */
int64_t largest_chunk(int64_t memory);
void patterns_make(Run *run);
void patterns_place(Run *run, int type);
void patterns_follow(Run *run, int type);
double patterns_share(const Run *run, const Pattern *pattern);
int64_t patterns_offset(const Run *run, const Pattern *pattern, int64_t call, int64_t block);

/* data.c: what the file holds at each place, first or again; read is what was written again. */
void data_fill(const Run *run, const Pattern *pattern, int64_t call, bool again, void *memory);
bool data_right(const Run *run, const Pattern *pattern, int64_t call, const void *memory,
                int64_t *where);

/* access.c: the calls of MPI-IO; a failure ends the job. */
void access_open(const Run *run, int type, int method, MPI_File *file);
void access_view(const Run *run, const Pattern *pattern, MPI_File file);
void access_call(const Run *run, const Pattern *pattern, int method, int64_t call, void *memory,
                 MPI_File file);
void access_sync(const Run *run, MPI_File file);
void access_close(const Run *run, MPI_File *file);
void access_remove(const Run *run);

/* measure.c */
void measure_all(Run *run);

/* report.c */
void report_print(const Run *run);

#endif
