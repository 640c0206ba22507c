// FT's fast Fourier transforms.
#ifndef FT_H
#define FT_H

#include <stddef.h>

enum {
    FT_LANES = 16, // lines that are transformed together
    FT_LONGEST = 512,
    FT_PAD =
        4, // complex numbers (a cache line) after each row and plane: no stride is a power of 2
};

struct ft_complex {
    double re, im;
};

// The grid, and how this rank holds it: in space as planes z, in frequency as rows y of all planes.
// Rows (x) are whole in both.
struct ft_grid {
    int nx, ny, nz;
    int planes, rows;   // nz and ny, each divided by the number of ranks
    size_t pitch;       // from a row to the next
    size_t space_plane; // from a plane to the next, of ny rows
    size_t waves_plane; // the same, of `rows` rows
    size_t room;        // elements of an array that holds either form
};

// exp(-2 pi i k / n) for a length n.
struct ft_roots {
    int n;
    struct ft_complex root[FT_LONGEST];
};

struct ft_plan {
    struct ft_roots x, y, z;
    struct ft_complex *exchange; // on its way between ranks: `room` elements, NULL for one rank
};

void ft_plan_set(struct ft_plan *plan, const struct ft_grid *grid);

// From space to waves. `space` is overwritten; for one rank the two may be the same array.
void ft_forward(const struct ft_plan *plan, const struct ft_grid *grid, struct ft_complex *space,
                struct ft_complex *waves);

// From waves, which stay, to space, without the factor 1 / (nx ny nz).
void ft_backward(const struct ft_plan *plan, const struct ft_grid *grid,
                 const struct ft_complex *waves, struct ft_complex *space);

#endif
