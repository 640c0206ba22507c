/* The domain: nx × ny columns of nz cells, periodic in x, walled in y, cut over a grid of ranks.
 *
 * A field is [layers][my + 2][mx + 2] with one row of neighbours' cells (the halo) around it;
 * interior cells are j = 1..my, i = 1..mx. Velocities stand on the east and north faces of cells.
 */
#ifndef OCEAN_DOMAIN_H
#define OCEAN_DOMAIN_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEST, EAST, SOUTH, NORTH, SIDES };

/* What is sent to, and received from, each side. */
typedef struct {
    MPI_Datatype send[SIDES], receive[SIDES];
} Faces;

typedef struct {
    MPI_Comm comm;
    int rank, ranks;
    int across[2]; /* ranks in y, x */
    int neighbour[SIDES];
    int nx, ny, nz; /* cells of the whole domain */
    int mx, my;     /* this rank's interior cells */
    int x0, y0;     /* where they begin */
    uint64_t seed;
    Faces volume, surface; /* fields of nz layers and of one */
} Domain;

/* A halo exchange under way. */
typedef struct {
    MPI_Request requests[2 * SIDES];
    double *field;
    int layers;
} Halo;

/* What a field has beyond a wall: its own value again (no gradient), or what is there already. */
typedef enum { WALL_COPIES, WALL_KEEPS } Wall;

/* False when a rank would have no cells; no message is lost by that. */
bool domain_create(Domain *domain, MPI_Comm world, int nx, int ny, int nz, uint64_t seed);
void domain_free(Domain *domain);

/* A field of zeros; ends the program when there is no memory. */
double *field_create(const Domain *domain, int layers);

/* Nonblocking exchange of the halo. `tag` tells fields apart that are under way together. */
Halo halo_start(const Domain *domain, double *field, int layers, int tag);
void halo_end(const Domain *domain, Halo *halo, Wall wall);

/* Uniform in [0, 1) from the seed, a stream and a cell of the whole domain: the same on any ranks.
 */
double cell_random(const Domain *domain, int stream, int z, int y, int x);

static inline size_t at(const Domain *d, int k, int j, int i) {
    return ((size_t)k * (size_t)(d->my + 2) + (size_t)j) * (size_t)(d->mx + 2) + (size_t)i;
}

/* True where row j of this rank has a wall to its north. */
static inline bool north_wall(const Domain *d, int j) { return d->y0 + j == d->ny; }

#endif
