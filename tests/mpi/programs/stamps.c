/* The same as the Fortran programs beside it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank = 0, found = 0, *global = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double first = MPI_Wtime(), second = MPI_Wtime();
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &global, &found);
    printf("rank %d first %.9f second %.9f tick %.2E found %c global %d\n", rank, first, second,
           MPI_Wtick(), found ? 'T' : 'F', found ? *global : -1);
    return MPI_Finalize();
}
