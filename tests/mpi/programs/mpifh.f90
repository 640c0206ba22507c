! The oldest binding: include 'mpif.h'.
program stamps
  implicit none
  include 'mpif.h'
  integer :: error, rank
  logical :: found
  integer(kind=MPI_ADDRESS_KIND) :: global
  double precision :: first, second

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  first = MPI_Wtime()
  second = MPI_Wtime()
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, global, found, error)
  print '(a,i0,a,f0.9,a,f0.9,a,es9.2,a,l1,a,i0)', 'rank ', rank, ' first ', first, ' second ', &
    second, ' tick ', MPI_Wtick(), ' found ', found, ' global ', global
  call MPI_Finalize(error)
end program stamps
