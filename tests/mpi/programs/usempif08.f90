! The newest binding: use mpi_f08, error codes left out.
program stamps
  use mpi_f08
  implicit none
  integer :: rank
  logical :: found
  integer(kind=MPI_ADDRESS_KIND) :: global
  double precision :: first, second

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  first = MPI_Wtime()
  second = MPI_Wtime()
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, global, found)
  print '(a,i0,a,f0.9,a,f0.9,a,es9.2,a,l1,a,i0)', 'rank ', rank, ' first ', first, ' second ', &
    second, ' tick ', MPI_Wtick(), ' found ', found, ' global ', global
  call MPI_Finalize()
end program stamps
