// The random sparse matrix of CG, by rows.
#ifndef CG_H
#define CG_H

#include <stdint.h>

// The rows [from, to) of a symmetric n × n matrix; columns of a row in ascending order.
struct matrix {
    int n, from, to;
    int32_t *start;  // [to - from + 1]: where each row begins
    int32_t *column; // [start[to - from]]
    double *value;   // the same
};

// Makes the rows [from, to): the sum over i < n of w_i v_i v_i^T, where v_i is a random sparse
// vector of `nonzeros` elements, with its i-th element set to 0.5, and w_i = 0.1^(i / n); and
// 0.1 - shift on the diagonal (RNR-94-007, section 2.2.3; its random order is that of NPB's makea).
struct matrix cg_matrix(int n, int nonzeros, double shift, int from, int to);

#endif
