/* N queens: counts the ways to place N queens on N × N squares so that none attacks another.
 *
 * Usage: nqueens QUEENS DEPTH. Rank 0 places the queens of the first DEPTH rows in every way that is
 * allowed; each of these prefixes is a piece of work that whoever is free completes by backtracking
 * with bit masks (M. Richards, Backtracking algorithms in MCPL using bit patterns and recursion,
 * Cambridge 1997, section 2: https://www.cl.cam.ac.uk/~mr10/backtrk.pdf). Other ranks ask rank 0 for
 * the next piece while they still work on one; rank 0 works too, and answers between two pieces. So
 * the work is dealt as it is done, and there are as many small messages as the depth makes pieces.
 *
 * The time runs from a barrier on all ranks to the sum over all ranks, by MPI_Wtime of rank 0.
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../give_up.h"

enum { LEAST_QUEENS = 4, MOST_QUEENS = 20, MOST_DEPTH = 5, WORDS = 3, ASK = 1, ANSWER = 2 };

/* The rows done so far: columns taken, and what their diagonals attack in the next row. */
struct prefix {
    uint32_t columns, left, right;
};

struct prefixes {
    struct prefix *items;
    size_t count, room;
};

/* What a rank has done. */
struct tally {
    int64_t pieces, solutions;
};

static int64_t complete(uint32_t all, uint32_t columns, uint32_t left, uint32_t right) {
    if (columns == all) return 1;
    int64_t solutions = 0;
    for (uint32_t open = all & ~(columns | left | right); open; open &= open - 1) {
        uint32_t queen = open & -open;
        solutions += complete(all, columns | queen, (left | queen) << 1, (right | queen) >> 1);
    }
    return solutions;
}

static void solve(uint32_t all, struct prefix piece, struct tally *done) {
    done->solutions += complete(all, piece.columns, piece.left, piece.right);
    done->pieces++;
}

static void add(struct prefixes *to, struct prefix piece) {
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 1024;
        to->items = realloc(to->items, to->room * sizeof *to->items);
        if (!to->items) stop(2, "there is not enough memory");
    }
    to->items[to->count++] = piece;
}

static void list(struct prefixes *to, uint32_t all, int depth, struct prefix piece) {
    if (depth == 0) {
        add(to, piece);
        return;
    }
    for (uint32_t open = all & ~(piece.columns | piece.left | piece.right); open;
         open &= open - 1) {
        uint32_t queen = open & -open;
        struct prefix next = {piece.columns | queen, (piece.left | queen) << 1,
                              (piece.right | queen) >> 1};
        list(to, all, depth - 1, next);
    }
}

/* Answer one who asks: with a piece, or with nothing when there is none left. */
static bool answer(const struct prefixes *work, size_t *next, int source) {
    bool more = *next < work->count;
    struct prefix piece = {0, 0, 0};
    if (more) piece = work->items[(*next)++];
    MPI_Recv(NULL, 0, MPI_BYTE, source, ASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&piece, more ? WORDS : 0, MPI_UINT32_T, source, ANSWER, MPI_COMM_WORLD);
    return more;
}

/* Rank 0: deal, and work in between. */
static void deal(uint32_t all, const struct prefixes *work, int workers, struct tally *done) {
    size_t next = 0;
    while (next < work->count || workers > 0) {
        MPI_Status status;
        int request_came = workers > 0;
        if (workers > 0 && next < work->count)
            MPI_Iprobe(MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &request_came, &status);
        else if (workers > 0)
            MPI_Probe(MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &status);
        if (request_came)
            workers -= !answer(work, &next, status.MPI_SOURCE);
        else
            solve(all, work->items[next++], done);
    }
}

/* The others: ask for the next piece, work on the one at hand meanwhile. */
static void work(uint32_t all, struct tally *done) {
    struct prefix piece = {0, 0, 0}, next = {0, 0, 0};
    bool at_hand = false;
    for (;;) {
        MPI_Request request;
        MPI_Status status;
        int words;
        MPI_Irecv(&next, WORDS, MPI_UINT32_T, 0, ANSWER, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_BYTE, 0, ASK, MPI_COMM_WORLD);
        if (at_hand) solve(all, piece, done);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_UINT32_T, &words);
        if (words != WORDS) return;
        piece = next;
        at_hand = true;
    }
}

static void print_library(void) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n")] = '\0';
    for (char *at = library; *at; at++) *at = *at == '\t' ? ' ' : *at;
    printf("library: %s\n", library);
}

static int number(const char *text, int low, int high) {
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < low || value > high)
        stop(2, "QUEENS must be from 4 to 20, DEPTH from 1 to 5 and less than QUEENS");
    return (int)value;
}

/* Print what each rank did, and return the sum. */
static int64_t report(const struct tally *tallies, int ranks) {
    int64_t solutions = 0;
    for (int rank = 0; rank < ranks; rank++) {
        printf("rank %d pieces %" PRId64 " solutions %" PRId64 "\n", rank, tallies[rank].pieces,
               tallies[rank].solutions);
        solutions += tallies[rank].solutions;
    }
    return solutions;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3) stop(2, "usage: nqueens QUEENS DEPTH");
    int queens = number(argv[1], LEAST_QUEENS, MOST_QUEENS);
    int depth = number(argv[2], 1, queens - 1 < MOST_DEPTH ? queens - 1 : MOST_DEPTH);
    uint32_t all = ((uint32_t)1 << queens) - 1;
    struct prefixes prefixes = {NULL, 0, 0};
    struct tally mine = {0, 0}, *tallies = calloc((size_t)ranks, sizeof *tallies);
    if (!tallies) stop(2, "there is not enough memory");

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    if (rank == 0) {
        list(&prefixes, all, depth, (struct prefix){0, 0, 0});
        deal(all, &prefixes, ranks - 1, &mine);
    } else {
        work(all, &mine);
    }
    MPI_Gather(&mine, 2, MPI_INT64_T, tallies, 2, MPI_INT64_T, 0, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - began;

    if (rank == 0) {
        print_library();
        printf("queens %d depth %d ranks %d pieces %zu\n", queens, depth, ranks, prefixes.count);
        int64_t solutions = report(tallies, ranks);
        printf("solutions %" PRId64 " seconds %.9f\n", solutions, seconds);
    }
    free(prefixes.items);
    free(tallies);
    MPI_Finalize();
    return 0;
}
