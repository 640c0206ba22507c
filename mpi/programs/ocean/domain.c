#include "domain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Datatype face(const Domain *d, int layers, const int size[2], const int start[2]) {
    const int whole[3] = {layers, d->my + 2, d->mx + 2};
    const int part[3] = {layers, size[0], size[1]};
    const int from[3] = {0, start[0], start[1]};
    MPI_Datatype type;
    MPI_Type_create_subarray(3, whole, part, from, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static Faces faces(const Domain *d, int layers) {
    const int column[2] = {d->my, 1}, row[2] = {1, d->mx};
    const int inner[SIDES][2] = {{1, 1}, {1, d->mx}, {1, 1}, {d->my, 1}};
    const int outer[SIDES][2] = {{1, 0}, {1, d->mx + 1}, {0, 1}, {d->my + 1, 1}};
    Faces faces;
    for (int side = 0; side < SIDES; side++) {
        const int *size = side <= EAST ? column : row;
        faces.send[side] = face(d, layers, size, inner[side]);
        faces.receive[side] = face(d, layers, size, outer[side]);
    }
    return faces;
}

bool domain_create(Domain *d, MPI_Comm world, int nx, int ny, int nz, uint64_t seed) {
    const int periodic[2] = {0, 1};
    int place[2];
    *d = (Domain){.nx = nx, .ny = ny, .nz = nz, .seed = seed};
    MPI_Comm_size(world, &d->ranks);
    MPI_Dims_create(d->ranks, 2, d->across);
    if (d->across[0] > ny || d->across[1] > nx) {
        return false;
    }
    MPI_Cart_create(world, 2, d->across, periodic, 1, &d->comm);
    MPI_Comm_rank(d->comm, &d->rank);
    MPI_Cart_coords(d->comm, d->rank, 2, place);
    MPI_Cart_shift(d->comm, 1, 1, &d->neighbour[WEST], &d->neighbour[EAST]);
    MPI_Cart_shift(d->comm, 0, 1, &d->neighbour[SOUTH], &d->neighbour[NORTH]);
    d->y0 = ny * place[0] / d->across[0];
    d->x0 = nx * place[1] / d->across[1];
    d->my = ny * (place[0] + 1) / d->across[0] - d->y0;
    d->mx = nx * (place[1] + 1) / d->across[1] - d->x0;
    d->volume = faces(d, nz);
    d->surface = faces(d, 1);
    return true;
}

void domain_free(Domain *d) {
    for (int side = 0; side < SIDES; side++) {
        MPI_Type_free(&d->volume.send[side]);
        MPI_Type_free(&d->volume.receive[side]);
        MPI_Type_free(&d->surface.send[side]);
        MPI_Type_free(&d->surface.receive[side]);
    }
    MPI_Comm_free(&d->comm);
}

double *field_create(const Domain *d, int layers) {
    double *field = calloc(at(d, layers, 0, 0), sizeof *field);
    if (field == NULL) {
        (void)fprintf(stderr, "ocean: error: no memory for a field on rank %d\n", d->rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return field;
}

Halo halo_start(const Domain *d, double *field, int layers, int tag) {
    /* What goes out to one side comes in from the opposite one. */
    static const int OPPOSITE[SIDES] = {EAST, WEST, NORTH, SOUTH};
    const Faces *shape = layers == 1 ? &d->surface : &d->volume;
    Halo halo = {.field = field, .layers = layers};
    for (int side = 0; side < SIDES; side++) {
        MPI_Irecv(field, 1, shape->receive[side], d->neighbour[side], tag * SIDES + OPPOSITE[side],
                  d->comm, &halo.requests[side]);
    }
    for (int side = 0; side < SIDES; side++) {
        MPI_Isend(field, 1, shape->send[side], d->neighbour[side], tag * SIDES + side, d->comm,
                  &halo.requests[SIDES + side]);
    }
    return halo;
}

void halo_end(const Domain *d, Halo *halo, Wall wall) {
    const size_t row = (size_t)(d->mx + 2) * sizeof(double);
    MPI_Status statuses[2 * SIDES];
    MPI_Waitall(2 * SIDES, halo->requests, statuses);
    for (int k = 0; wall == WALL_COPIES && k < halo->layers; k++) {
        if (d->neighbour[SOUTH] == MPI_PROC_NULL) {
            memcpy(&halo->field[at(d, k, 0, 0)], &halo->field[at(d, k, 1, 0)], row);
        }
        if (d->neighbour[NORTH] == MPI_PROC_NULL) {
            memcpy(&halo->field[at(d, k, d->my + 1, 0)], &halo->field[at(d, k, d->my, 0)], row);
        }
    }
}

/* The finaliser of SplitMix64 (Steele, Lea & Flood 2014). */
static uint64_t mixed(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

double cell_random(const Domain *d, int stream, int z, int y, int x) {
    const uint64_t cell =
        ((uint64_t)z * (uint64_t)d->ny + (uint64_t)y) * (uint64_t)d->nx + (uint64_t)x;
    const uint64_t bits = mixed(mixed(mixed(d->seed) + (uint64_t)stream) + cell);
    return (double)(bits >> 11) * 0x1p-53;
}
