// Communication between ranks: MPI with -DNAS_MPI, else one process that speaks to itself.
//
// All of it is called outside of OpenMP's parallel regions, or by the master thread. Counts are of
// elements. The process alone has rank 0 of 1 and never sends: what would be sent to itself is
// copied, so a kernel needs no second way for one rank.
#ifndef COMM_H
#define COMM_H

#include <stdint.h>
#include <string.h>

#ifdef NAS_MPI

#include <mpi.h>

#include "../give_up.h"

#define COMM_NOBODY MPI_PROC_NULL // as partner: nothing is sent or received

static inline void comm_start(int *argc, char ***argv) {
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
}

static inline void comm_end(void) { MPI_Finalize(); }

_Noreturn static inline void comm_abort(int status) {
    give_up(status);
    __builtin_unreachable();
}

static inline int comm_rank(void) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static inline int comm_size(void) {
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static inline void comm_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static inline void comm_sum(double *values, int n) {
    MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static inline void comm_max(double *values, int n) {
    MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static inline void comm_sum_ints(int32_t *values, int n) {
    MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
}

static inline void comm_bcast(double *values, int n, int root) {
    MPI_Bcast(values, n, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static inline void comm_alltoall(const double *send, double *receive, int n_each) {
    MPI_Alltoall(send, n_each, MPI_DOUBLE, receive, n_each, MPI_DOUBLE, MPI_COMM_WORLD);
}

// Each rank's n_each values become known to all, in the order of the ranks.
static inline void comm_gather_ints(const int32_t *values, int32_t *all, int n_each) {
    MPI_Allgather(values, n_each, MPI_INT32_T, all, n_each, MPI_INT32_T, MPI_COMM_WORLD);
}

static inline void comm_alltoallv_ints(const int32_t *send, const int *n_send, const int *at_send,
                                       int32_t *receive, const int *n_receive,
                                       const int *at_receive) {
    MPI_Alltoallv(send, n_send, at_send, MPI_INT32_T, receive, n_receive, at_receive, MPI_INT32_T,
                  MPI_COMM_WORLD);
}

// Each rank's part of `values` (n[rank] from at[rank]) becomes known to all.
static inline void comm_share(double *values, const int *n, const int *at) {
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, n, at, MPI_DOUBLE, MPI_COMM_WORLD);
}

static inline void comm_send(const double *values, int n, int to) {
    MPI_Send(values, n, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
}

static inline void comm_receive(double *values, int n, int from) {
    MPI_Recv(values, n, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static inline void comm_sendrecv(const double *send, int n_send, int to, double *receive,
                                 int n_receive, int from) {
    MPI_Sendrecv(send, n_send, MPI_DOUBLE, to, 0, receive, n_receive, MPI_DOUBLE, from, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

#else

#include <stdlib.h>

#define COMM_NOBODY (-1)

static inline void comm_start(int *argc, char ***argv) { (void)argc, (void)argv; }

static inline void comm_end(void) {}

_Noreturn static inline void comm_abort(int status) { exit(status); }

static inline int comm_rank(void) { return 0; }

static inline int comm_size(void) { return 1; }

static inline void comm_barrier(void) {}

static inline void comm_sum(double *values, int n) { (void)values, (void)n; }

static inline void comm_max(double *values, int n) { (void)values, (void)n; }

static inline void comm_sum_ints(int32_t *values, int n) { (void)values, (void)n; }

static inline void comm_bcast(double *values, int n, int root) {
    (void)values, (void)n, (void)root;
}

static inline void comm_alltoall(const double *send, double *receive, int n_each) {
    memcpy(receive, send, sizeof *send * (size_t)n_each);
}

static inline void comm_gather_ints(const int32_t *values, int32_t *all, int n_each) {
    memcpy(all, values, sizeof *values * (size_t)n_each);
}

static inline void comm_alltoallv_ints(const int32_t *send, const int *n_send, const int *at_send,
                                       int32_t *receive, const int *n_receive,
                                       const int *at_receive) {
    (void)n_receive;
    memcpy(receive + at_receive[0], send + at_send[0], sizeof *send * (size_t)n_send[0]);
}

static inline void comm_share(double *values, const int *n, const int *at) {
    (void)values, (void)n, (void)at;
}

static inline void comm_send(const double *values, int n, int to) {
    (void)values, (void)n, (void)to;
}

static inline void comm_receive(double *values, int n, int from) {
    (void)values, (void)n, (void)from;
}

static inline void comm_sendrecv(const double *send, int n_send, int to, double *receive,
                                 int n_receive, int from) {
    (void)n_receive;
    if (to != COMM_NOBODY && from != COMM_NOBODY)
        memcpy(receive, send, sizeof *send * (size_t)n_send);
}

#endif
#endif
