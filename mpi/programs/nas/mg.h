// MG's grids: how ranks share them, and the operators on them.
//
// A field has one layer of ghosts on each side: indices 0 ... n + 1 along each axis, of which
// 1 ... n are this rank's own. Boundaries are periodic.
#ifndef MG_H
#define MG_H

#include <stdbool.h>
#include <stddef.h>

enum { MG_X, MG_Y, MG_Z, MG_AXES };
enum { MG_LONGEST = 256, MG_LEVELS = 8 };

struct mg_grid {
    int n[MG_AXES];                       // this rank's own points
    int first[MG_AXES];                   // how many there are before them
    int ranks[MG_AXES];                   // among which each axis is divided
    int next[MG_AXES], previous[MG_AXES]; // neighbours' ranks
    size_t step[MG_AXES];                 // from a point to the next
    size_t room;                          // elements of a field
};

// A level of the hierarchy. Where a rank's part would be too small, every rank computes the whole
// level: `shared` is then the part through which the level above is reached.
struct mg_level {
    struct mg_grid grid;
    bool is_shared;        // the finest of the levels that all ranks compute
    struct mg_grid shared; // and how it would be divided
    double *solution, *residual, *part;
};

struct mg_hierarchy {
    int levels; // levels - 1 is the finest
    struct mg_level level[MG_LEVELS];
    double *faces[2]; // to send, received
    double *blocks;   // what all ranks know of the shared level, by rank
};

// Whether so many ranks can divide n^3 points.
bool mg_divides(int n, int ranks);
void mg_hierarchy_set(struct mg_hierarchy *hierarchy, int n);

// Ghosts of a field, from the neighbours.
void mg_ghosts(const struct mg_hierarchy *hierarchy, const struct mg_grid *grid, double *field);
// The shared level's residual, with ghosts: from every rank's part of it.
void mg_gather(const struct mg_hierarchy *hierarchy, struct mg_level *level);
// This rank's part of the shared level's solution, with ghosts.
void mg_cut(struct mg_level *level);

void mg_zero(const struct mg_grid *grid, double *field);

// The operators write own points only, but for mg_prolong, which adds to the ghosts too.
// residual = right - A solution; `right` may be `residual`.
void mg_residual(const struct mg_grid *grid, const double *solution, const double *right,
                 double *residual);
// solution += C residual.
void mg_smooth(const struct mg_grid *grid, const double c[3], const double *residual,
               double *solution);
// The residual of a grid, on the next coarser one.
void mg_restrict(const struct mg_grid *fine, const double *from, const struct mg_grid *coarse,
                 double *to);
// to += the solution of the next coarser grid.
void mg_prolong(const struct mg_grid *coarse, const double *from, const struct mg_grid *fine,
                double *to);
// The root of the mean square over all ranks, for n^3 points.
double mg_norm(const struct mg_grid *grid, int n, const double *field);

#endif
