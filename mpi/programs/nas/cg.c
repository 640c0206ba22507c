// CG, "conjugate gradient": the smallest eigenvalue of a random sparse symmetric matrix by inverse
// iteration, 25 steps of conjugate gradient each (RNR-94-007, section 2.2.3; class sizes and zeta
// of NPB 2 and 3).
//
// Ranks share the rows in one dimension, and each step makes the whole direction vector known to
// all; NPB's own MPI program distributes blocks in two dimensions, which sends less.
#include "cg.h"

#include <math.h>
#include <stdio.h>

#include "comm.h"
#include "nas.h"

enum { STEPS = 25, MOST_RANKS = 256 };

#define TOLERANCE 1e-10

static const struct size {
    int n, nonzeros, iterations;
    double shift, zeta;
} sizes[CLASSES] = {
    [CLASS_S] = {1400, 7, 15, 10.0, 8.5971775078648},
    [CLASS_W] = {7000, 8, 15, 12.0, 10.362595087124},
    [CLASS_A] = {14000, 11, 15, 20.0, 17.130235054029},
    [CLASS_B] = {75000, 13, 75, 60.0, 22.712745482631},
};

// This rank's rows of the vectors, but for p, which is whole.
struct solver {
    struct matrix a;
    int rows;
    double *x, *z, *r, *q, *p;
    int n[MOST_RANKS], at[MOST_RANKS]; // each rank's rows
};

static struct solver make_solver(const struct size *size) {
    const int ranks = comm_size(), rank = comm_rank();
    struct solver s;
    for (int i = 0; i < ranks; i++) {
        s.at[i] = (int)((int64_t)size->n * i / ranks);
        s.n[i] = (int)((int64_t)size->n * (i + 1) / ranks) - s.at[i];
    }
    const int from = s.at[rank];
    s.rows = s.n[rank];
    s.a = cg_matrix(size->n, size->nonzeros, size->shift, from, from + s.rows);
    const size_t rows = (size_t)s.rows;
    s.x = nas_allocate(rows, sizeof(double));
    s.z = nas_allocate(rows, sizeof(double));
    s.r = nas_allocate(rows, sizeof(double));
    s.q = nas_allocate(rows, sizeof(double));
    s.p = nas_allocate((size_t)size->n, sizeof(double));
    return s;
}

// One row times a vector; four sums, so that additions do not wait for one another.
static double row_times(const struct matrix *a, int row, const double *vector) {
    const int32_t begin = a->start[row], end = a->start[row + 1];
    double sum[4] = {0};
    int32_t k = begin;
    for (; k + 4 <= end; k += 4)
        for (int i = 0; i < 4; i++) sum[i] += a->value[k + i] * vector[a->column[k + i]];
    for (; k < end; k++) sum[0] += a->value[k] * vector[a->column[k]];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// q = A p; gives p · q.
static double multiply(struct solver *s) {
    const double *const p = s->p, *const mine = p + s->a.from;
    double dot = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : dot)
    for (int j = 0; j < s->rows; j++) {
        s->q[j] = row_times(&s->a, j, p);
        dot += mine[j] * s->q[j];
    }
    comm_sum(&dot, 1);
    return dot;
}

// z = 0, r = p = x; gives r · r.
static double start(struct solver *s) {
    double *const p = s->p + s->a.from;
    double dot = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : dot)
    for (int j = 0; j < s->rows; j++) {
        s->z[j] = 0.0;
        p[j] = s->r[j] = s->x[j];
        dot += s->x[j] * s->x[j];
    }
    comm_sum(&dot, 1);
    comm_share(s->p, s->n, s->at);
    return dot;
}

// z += alpha p, r -= alpha q; gives r · r.
static double advance(struct solver *s, double alpha) {
    const double *const p = s->p + s->a.from;
    double dot = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : dot)
    for (int j = 0; j < s->rows; j++) {
        s->z[j] += alpha * p[j];
        s->r[j] -= alpha * s->q[j];
        dot += s->r[j] * s->r[j];
    }
    comm_sum(&dot, 1);
    return dot;
}

// p = r + beta p.
static void turn(struct solver *s, double beta) {
    double *const p = s->p + s->a.from;
#pragma omp parallel for schedule(static)
    for (int j = 0; j < s->rows; j++) p[j] = s->r[j] + beta * p[j];
    comm_share(s->p, s->n, s->at);
}

// ‖x - A z‖.
static double residual(struct solver *s) {
    double *const p = s->p + s->a.from;
    double sum = 0.0;
#pragma omp parallel for schedule(static)
    for (int j = 0; j < s->rows; j++) p[j] = s->z[j];
    comm_share(s->p, s->n, s->at);
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int j = 0; j < s->rows; j++) {
        const double error = s->x[j] - row_times(&s->a, j, s->p);
        sum += error * error;
    }
    comm_sum(&sum, 1);
    return sqrt(sum);
}

// Solves A z = x, nearly; gives the residual.
static double solve(struct solver *s) {
    double rho = start(s);
    for (int step = 0; step < STEPS; step++) {
        const double alpha = rho / multiply(s);
        const double next = advance(s, alpha);
        turn(s, next / rho);
        rho = next;
    }
    return residual(s);
}

// x = z / ‖z‖; gives 1 / (x · z) of the x before.
static double normalise(struct solver *s) {
    double xz = 0.0, zz = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : xz, zz)
    for (int j = 0; j < s->rows; j++) {
        xz += s->x[j] * s->z[j];
        zz += s->z[j] * s->z[j];
    }
    double dots[] = {xz, zz};
    comm_sum(dots, 2);
    const double scale = 1.0 / sqrt(dots[1]);
#pragma omp parallel for schedule(static)
    for (int j = 0; j < s->rows; j++) s->x[j] = scale * s->z[j];
    return 1.0 / dots[0];
}

static void ones(struct solver *s) {
#pragma omp parallel for schedule(static)
    for (int j = 0; j < s->rows; j++) s->x[j] = 1.0;
}

static const char *refuses(enum nas_class class, int ranks) {
    (void)class;
    return ranks > MOST_RANKS ? "at most 256 ranks" : NULL;
}

// As NPB counts them.
static double operations(const struct size *size) {
    const double vectors = size->nonzeros * (size->nonzeros + 1.0);
    return 2.0 * size->iterations * size->n * (3.0 + vectors + STEPS * (5.0 + vectors) + 3.0);
}

static void run(enum nas_class class, struct nas_result *result) {
    const struct size *size = &sizes[class];
    struct solver solver = make_solver(size);
    ones(&solver);
    solve(&solver); // not timed: touches all memory
    ones(&solver);
    double zeta = 0.0, norm = 0.0;
    const double begin = nas_begin();
    for (int i = 0; i < size->iterations; i++) {
        norm = solve(&solver);
        zeta = size->shift + normalise(&solver);
    }
    result->seconds = nas_since(begin);
    result->iterations = size->iterations;
    result->operations = operations(size);
    snprintf(result->size, sizeof result->size, "%d", size->n);
    result->verified = nas_agrees(result, "zeta", zeta, size->zeta, TOLERANCE);
    nas_detail(result, " residual = %22.14e\n", norm);
}

const struct nas_kernel nas_kernel = {
    .name = "CG", .operation = "floating point", .refuses = refuses, .run = run};
