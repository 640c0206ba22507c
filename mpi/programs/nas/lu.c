// LU: the steady flow of a compressible gas in a cube, by symmetric successive over-relaxation
// (RNR-94-007, chapter 3). Ranks hold columns along z, and pass planes of both sweeps on to their
// neighbours one by one: many short messages.
#include <math.h>
#include <stdio.h>

#include "comm.h"
#include "lu.h"
#include "nas.h"

#define TOLERANCE 1e-8
#define OMEGA 1.2

// NPB's norms of the last residual and of the error, and the surface integral.
static const struct size {
    int n, iterations;
    double dt;
    double residual[LU_PARTS], error[LU_PARTS], surface;
} sizes[CLASSES] = {
    // clang-format off
    [CLASS_S] = {12, 50, 0.5,
                 {1.6196343210976702e-2, 2.1976745164821318e-3, 1.5179927653399185e-3,
                  1.5029584435994323e-3, 3.4264073155896461e-2},
                 {6.4223319957960924e-4, 8.4144342047347926e-5, 5.8588269616485186e-5,
                  5.8474222595157350e-5, 1.3103347914111294e-3},
                 7.8418928865937083},
    [CLASS_W] = {33, 300, 1.5e-3,
                 {0.1236511638192e2, 0.1317228477799e1, 0.2550120713095e1, 0.2326187750252e1,
                  0.2826799444189e2},
                 {0.4867877144216, 0.5064652880982e-1, 0.9281818101960e-1, 0.8570126542733e-1,
                  0.1084277417792e1},
                 0.1161399311023e2},
    [CLASS_A] = {64, 250, 2.0,
                 {7.7902107606689367e2, 6.3402765259692870e1, 1.9499249727292479e2,
                  1.7845301160418537e2, 1.8384760349464247e3},
                 {2.9964085685471943e1, 2.8194576365003349, 7.3473412698774742,
                  6.7139225687777051, 7.0715315688392578e1},
                 2.6030925604886277e1},
    [CLASS_B] = {102, 250, 2.0,
                 {3.5532672969982736e3, 2.6214750795310692e2, 8.8333721850952190e2,
                  7.7812774739425265e2, 7.3087969592545314e3},
                 {1.1401176380212709e2, 8.1098963655421574, 2.8480597317698308e1,
                  2.5905394567832939e1, 2.6054907504857413e2},
                 4.7887162703308227e1},
    // clang-format on
};

// Every own row that is not on a boundary: a = factor a, or a = a + factor b.
static void scale(const struct lu_grid *grid, double factor, double *a, double *b) {
    const int from = grid->from[LU_X], to = grid->to[LU_X];
#pragma omp parallel for schedule(static)
    for (int z = grid->from[LU_Z]; z < grid->to[LU_Z]; z++)
        for (int y = grid->from[LU_Y]; y < grid->to[LU_Y]; y++)
            for (size_t part = 0; part < LU_PARTS; part++) {
                double *to_row = lu_row(grid, a, z, y) + part * grid->pitch;
                const double *row = b ? lu_row(grid, b, z, y) + part * grid->pitch : NULL;
                for (int x = from; x < to; x++)
                    to_row[x] = row ? to_row[x] + factor * row[x] : factor * to_row[x];
            }
}

static void set(struct lu_problem *problem) {
    lu_begin(problem);
    lu_ghosts(problem);
    lu_rate(problem, problem->flow, problem->forcing, problem->residual);
}

static void iterate(struct lu_problem *problem) {
    scale(&problem->grid, problem->dt, problem->residual, NULL);
    lu_sweeps(problem, OMEGA);
    scale(&problem->grid, 1.0 / (OMEGA * (2.0 - OMEGA)), problem->flow, problem->residual);
    lu_ghosts(problem);
    lu_rate(problem, problem->flow, problem->forcing, problem->residual);
}

// NPB's count: a fit to what its stored blocks cost, which is more than is done here (lu_sweep.c).
static double operations(int n, int iterations) {
    return iterations * (1984.77 * pow(n, 3) - 10923.3 * pow(n, 2) + 27770.9 * n - 144010.0);
}

static bool verify(const struct lu_problem *problem, const struct size *size,
                   const double residual[LU_PARTS], struct nas_result *result) {
    double error[LU_PARTS];
    bool agree = true;
    char name[16];
    lu_error_norms(problem, error);
    for (int part = 0; part < LU_PARTS; part++) {
        snprintf(name, sizeof name, "residual %d", part + 1);
        agree &= nas_agrees(result, name, residual[part], size->residual[part], TOLERANCE);
    }
    for (int part = 0; part < LU_PARTS; part++) {
        snprintf(name, sizeof name, "error %d", part + 1);
        agree &= nas_agrees(result, name, error[part], size->error[part], TOLERANCE);
    }
    agree &= nas_agrees(result, "surface", lu_surface(problem), size->surface, TOLERANCE);
    nas_detail(result, " Mop/s by NPB's count; fewer operations are done.\n");
    return agree;
}

static const char *refuses(enum nas_class class, int ranks) {
    return lu_refuses(sizes[class].n, ranks);
}

static void run(enum nas_class class, struct nas_result *result) {
    const struct size *size = &sizes[class];
    struct lu_problem problem;
    double residual[LU_PARTS];
    lu_problem_set(&problem, size->n, size->dt);
    lu_force(&problem);
    set(&problem);
    iterate(&problem); // not timed
    set(&problem);
    const double begin = nas_begin();
    for (int i = 0; i < size->iterations; i++) iterate(&problem);
    lu_residual_norms(&problem, residual);
    result->seconds = nas_since(begin);
    result->operations = operations(size->n, size->iterations);
    result->iterations = size->iterations;
    snprintf(result->size, sizeof result->size, "%dx%dx%d", size->n, size->n, size->n);
    result->verified = verify(&problem, size, residual, result);
}

const struct nas_kernel nas_kernel = {
    .name = "LU", .operation = "floating point", .refuses = refuses, .run = run};
