// Makes the matrix of CG. Not timed: each rank makes all random vectors, and keeps its rows.
#include "cg.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "nas.h"

#define CONDITION 0.1 // the reciprocal of the condition number

// The vectors v_i: `count[i]` elements from i × width.
struct outer {
    int n, width;
    int *count;
    int32_t *index;
    double *value;
    double *weight; // w_i
};

// The vectors that have an element in row j: `at[j]` to `at[j + 1]` of `where`, which tells the
// place of that element among all.
struct inverse {
    int64_t *at;
    int64_t *where;
};

// Random elements at random places: values first, then the place, as a part of the next power of
// two of n; a place out of the vector or taken already is drawn anew, with its value.
static int random_vector(int n, int nonzeros, uint64_t *x, int32_t *index, double *value) {
    int power = 1, count = 0;
    while (power < n) power *= 2;
    while (count < nonzeros) {
        const double element = nas_random(x, NAS_A);
        const int32_t place = (int32_t)(power * nas_random(x, NAS_A));
        bool taken = place >= n;
        for (int i = 0; i < count && !taken; i++) taken = index[i] == place;
        if (taken) continue;
        index[count] = place;
        value[count++] = element;
    }
    return count;
}

static int set(int count, int32_t *index, double *value, int place, double element) {
    int i = 0;
    while (i < count && index[i] != place) i++;
    index[i] = place;
    value[i] = element;
    return i == count ? count + 1 : count;
}

static struct outer make_outer(int n, int nonzeros) {
    const int width = nonzeros + 1;
    const size_t places = (size_t)n * (size_t)width;
    struct outer o = {.n = n,
                      .width = width,
                      .count = nas_allocate((size_t)n, sizeof(int)),
                      .index = nas_allocate(places, sizeof(int32_t)),
                      .value = nas_allocate(places, sizeof(double)),
                      .weight = nas_allocate((size_t)n, sizeof(double))};
    const double ratio = pow(CONDITION, 1.0 / n);
    double weight = 1.0;
    uint64_t x = nas_jump(NAS_SEED, NAS_A, 1); // NPB draws one before
    for (int i = 0; i < n; i++) {
        int32_t *const index = o.index + (size_t)i * (size_t)width;
        double *const value = o.value + (size_t)i * (size_t)width;
        o.count[i] = random_vector(n, nonzeros, &x, index, value);
        o.count[i] = set(o.count[i], index, value, i, 0.5);
        o.weight[i] = weight;
        weight *= ratio;
    }
    return o;
}

static struct inverse invert(const struct outer *o) {
    struct inverse in = {.at = nas_allocate((size_t)o->n + 2, sizeof(int64_t))};
    memset(in.at, 0, sizeof *in.at * ((size_t)o->n + 2));
    for (int i = 0; i < o->n; i++)
        for (int64_t k = (int64_t)i * o->width, j = 0; j < o->count[i]; j++)
            in.at[o->index[k + j] + 2]++;
    for (int j = 0; j < o->n; j++) in.at[j + 2] += in.at[j + 1];
    in.where = nas_allocate((size_t)in.at[o->n + 1], sizeof(int64_t));
    for (int i = 0; i < o->n; i++)
        for (int64_t k = (int64_t)i * o->width, j = 0; j < o->count[i]; j++)
            in.where[in.at[o->index[k + j] + 1]++] = k + j;
    return in;
}

static int ascending(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// A thread's view of one row: a value for each column, and the columns that the row has.
struct row {
    double *value; // [n], 0 between rows
    bool *taken;   // [n], false between rows
    int32_t *column;
    int count;
};

static struct row make_row(int n) {
    struct row row = {.value = calloc((size_t)n, sizeof(double)),
                      .taken = calloc((size_t)n, sizeof(bool)),
                      .column = calloc((size_t)n, sizeof(int32_t))};
    if (!row.value || !row.taken || !row.column) nas_fail("no memory for rows of %d", n);
    return row;
}

static void free_row(struct row *row) {
    free(row->value);
    free(row->taken);
    free(row->column);
}

static void fill_row(const struct outer *o, const struct inverse *in, int j, struct row *row) {
    row->count = 0;
    for (int64_t w = in->at[j]; w < in->at[j + 1]; w++) {
        const int64_t place = in->where[w], i = place / o->width;
        const double scale = o->weight[i] * o->value[place];
        for (int64_t k = i * o->width; k < i * o->width + o->count[i]; k++) {
            const int32_t c = o->index[k];
            row->value[c] += scale * o->value[k];
            if (!row->taken[c]) row->column[row->count++] = c;
            row->taken[c] = true;
        }
    }
}

static void clear_row(struct row *row) {
    for (int k = 0; k < row->count; k++) {
        row->value[row->column[k]] = 0.0;
        row->taken[row->column[k]] = false;
    }
}

static void count_rows(const struct outer *o, const struct inverse *in, struct matrix *m) {
#pragma omp parallel
    {
        struct row row = make_row(m->n);
#pragma omp for schedule(static)
        for (int j = m->from; j < m->to; j++) {
            fill_row(o, in, j, &row);
            m->start[j - m->from + 1] = row.count;
            clear_row(&row);
        }
        free_row(&row);
    }
    m->start[0] = 0;
    for (int j = 0; j < m->to - m->from; j++) m->start[j + 1] += m->start[j];
}

static void fill_rows(const struct outer *o, const struct inverse *in, double shift,
                      struct matrix *m) {
#pragma omp parallel
    {
        struct row row = make_row(m->n);
        // The same share of rows as in the products: a thread's rows lie in its own memory.
#pragma omp for schedule(static)
        for (int j = m->from; j < m->to; j++) {
            fill_row(o, in, j, &row);
            row.value[j] += CONDITION - shift;
            qsort(row.column, (size_t)row.count, sizeof *row.column, ascending);
            const int32_t start = m->start[j - m->from];
            for (int k = 0; k < row.count; k++) {
                m->column[start + k] = row.column[k];
                m->value[start + k] = row.value[row.column[k]];
            }
            clear_row(&row);
        }
        free_row(&row);
    }
}

struct matrix cg_matrix(int n, int nonzeros, double shift, int from, int to) {
    struct outer outer = make_outer(n, nonzeros);
    struct inverse inverse = invert(&outer);
    struct matrix m = {.n = n, .from = from, .to = to};
    m.start = nas_allocate((size_t)(to - from) + 1, sizeof(int32_t));
    count_rows(&outer, &inverse, &m);
    const size_t elements = (size_t)m.start[to - from];
    m.column = nas_allocate(elements, sizeof(int32_t));
    m.value = nas_allocate(elements, sizeof(double));
    fill_rows(&outer, &inverse, shift, &m);
    free(outer.count), free(outer.index), free(outer.value), free(outer.weight);
    free(inverse.at), free(inverse.where);
    return m;
}
