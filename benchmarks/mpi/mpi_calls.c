/* Preloaded before a ping-pong: how much of a message's time is within MPI's calls.
 *
 * Rank 0 is timed from the start of its MPI_Send to the end of its MPI_Recv, rank 1 from the end of its
 * MPI_Recv to the start of its MPI_Send: what rank 1's program does while rank 0 waits. Half of the
 * difference is the message's own time; the rest of what the program reports is the program's.
 * At each barrier, and at the end, each rank tells the means over the exchanges since the last one,
 * without the first CALLS_SKIP: `calls RANK BYTES EXCHANGES SECONDS`.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank = -1, size, exchanges, seen;
static double sent_at, received_at, sum;

/* The environment's CALLS_SKIP has passed; rank 1's first answer is as much a warm-up as rank 0's. */
static int counts(void) {
    static int skip = -1;
    if (skip < 0) {
        const char *text = getenv("CALLS_SKIP");
        skip = text ? atoi(text) : 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    return ++seen > skip;
}

static void tell(void) {
    if (exchanges) fprintf(stderr, "calls %d %d %d %.9f\n", rank, size, exchanges, sum / exchanges);
    exchanges = seen = 0;
    sum = 0;
}

int MPI_Send(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    sent_at = PMPI_Wtime();
    size = count;
    if (to == 0 && counts()) {
        sum += sent_at - received_at;
        exchanges++;
    }
    return PMPI_Send(from, count, type, to, tag, comm);
}

int MPI_Recv(void *into, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    int result = PMPI_Recv(into, count, type, from, tag, comm, status);
    received_at = PMPI_Wtime();
    if (from == 1 && counts()) {
        sum += received_at - sent_at;
        exchanges++;
    }
    return result;
}

int MPI_Barrier(MPI_Comm comm) {
    tell();
    return PMPI_Barrier(comm);
}

int MPI_Finalize(void) {
    tell();
    return PMPI_Finalize();
}
