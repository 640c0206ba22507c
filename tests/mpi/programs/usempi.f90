! The module: use mpi. The threaded initialisation, and the attribute by its oldest name.
program stamps
  use mpi
  implicit none
  integer :: error, rank, provided, old
  logical :: found, found_old
  integer(kind=MPI_ADDRESS_KIND) :: global
  double precision :: first, second

  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  first = MPI_Wtime()
  second = MPI_Wtime()
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, global, found, error)
  call MPI_Attr_get(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, old, found_old, error)
  print '(a,i0,a,f0.9,a,f0.9,a,es9.2,a,l1,a,i0,a,l1,a,i0)', 'rank ', rank, ' first ', first, &
    ' second ', second, ' tick ', MPI_Wtick(), ' found ', found, ' global ', global, &
    ' found_old ', found_old, ' global_old ', old
  call MPI_Finalize(error)
end program stamps
