/* The Fortran spellings. Open MPI's reach PMPI without passing a C wrapper, MPICH's call the C names
 * (clocks of the same program must not depend on the language that it was written in), so each is
 * wrapped; the library's own does the work, for it knows what Fortran needs. */
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* What MPI_WTIME_IS_GLOBAL is in Fortran. */
#ifdef MPICH
#define IS_GLOBAL (MPI_WTIME_IS_GLOBAL + 1)
#else
#define IS_GLOBAL MPI_WTIME_IS_GLOBAL
#endif

typedef void Any(void);

/* The MPI library's own function of this name. A program that calls it was linked with it. */
static Any *next(const char *name) {
    Any *symbol = NULL;
    *(void **)&symbol = dlsym(RTLD_NEXT, name);
    if (symbol == NULL) {
        (void)fprintf(stderr, "ullage: %s: not in this program's MPI library\n", name);
        abort();
    }
    return symbol;
}

/* `error` is null where the newest binding leaves it out. */
static bool went_well(const MPI_Fint *error) { return error == NULL || *error == MPI_SUCCESS; }

static void init(const char *name, MPI_Fint *error) {
    init_before();
    ((void (*)(MPI_Fint *))next(name))(error);
    if (went_well(error)) {
        init_after();
    }
}

static void init_thread(const char *name, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error) {
    init_before();
    ((void (*)(MPI_Fint *, MPI_Fint *, MPI_Fint *))next(name))(required, provided, error);
    if (went_well(error)) {
        init_after();
    }
}

static void finalize(const char *name, MPI_Fint *error) {
    finalize_before();
    ((void (*)(MPI_Fint *))next(name))(error);
}

static void get_attr(const char *name, MPI_Fint *comm, MPI_Fint *key, MPI_Aint *value,
                     MPI_Fint *flag, MPI_Fint *error) {
    ((void (*)(MPI_Fint *, MPI_Fint *, MPI_Aint *, MPI_Fint *, MPI_Fint *))next(name))(
        comm, key, value, flag, error);
    if (wtime_global && *key == IS_GLOBAL && went_well(error) && *flag) {
        *value = wtime_is_global();
    }
}

/* With the values of MPI 1, which are default integers. */
static void attr_get(const char *name, MPI_Fint *comm, MPI_Fint *key, MPI_Fint *value,
                     MPI_Fint *flag, MPI_Fint *error) {
    ((void (*)(MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *))next(name))(
        comm, key, value, flag, error);
    if (wtime_global && *key == IS_GLOBAL && went_well(error) && *flag) {
        *value = wtime_is_global();
    }
}

#define TIMES(TIME, TICK)                                                                          \
    EXPORT double TIME(void);                                                                      \
    EXPORT double TIME(void) { return MPI_Wtime(); }                                               \
    EXPORT double TICK(void);                                                                      \
    EXPORT double TICK(void) { return MPI_Wtick(); }

#define INIT(NAME)                                                                                 \
    EXPORT void NAME(MPI_Fint *error);                                                             \
    EXPORT void NAME(MPI_Fint *error) { init(#NAME, error); }

#define INIT_THREAD(NAME)                                                                          \
    EXPORT void NAME(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error);                     \
    EXPORT void NAME(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error) {                    \
        init_thread(#NAME, required, provided, error);                                             \
    }

#define FINALIZE(NAME)                                                                             \
    EXPORT void NAME(MPI_Fint *error);                                                             \
    EXPORT void NAME(MPI_Fint *error) { finalize(#NAME, error); }

#define GET_ATTR(NAME)                                                                             \
    EXPORT void NAME(MPI_Fint *comm, MPI_Fint *key, MPI_Aint *value, MPI_Fint *flag,               \
                     MPI_Fint *error);                                                             \
    EXPORT void NAME(MPI_Fint *comm, MPI_Fint *key, MPI_Aint *value, MPI_Fint *flag,               \
                     MPI_Fint *error) {                                                            \
        get_attr(#NAME, comm, key, value, flag, error);                                            \
    }

#define ATTR_GET(NAME)                                                                             \
    EXPORT void NAME(MPI_Fint *comm, MPI_Fint *key, MPI_Fint *value, MPI_Fint *flag,               \
                     MPI_Fint *error);                                                             \
    EXPORT void NAME(MPI_Fint *comm, MPI_Fint *key, MPI_Fint *value, MPI_Fint *flag,               \
                     MPI_Fint *error) {                                                            \
        attr_get(#NAME, comm, key, value, flag, error);                                            \
    }

TIMES(mpi_wtime, mpi_wtick)
TIMES(mpi_wtime_, mpi_wtick_)
TIMES(mpi_wtime__, mpi_wtick__)
TIMES(MPI_WTIME, MPI_WTICK)
TIMES(mpi_wtime_f08_, mpi_wtick_f08_)

INIT(mpi_init)
INIT(mpi_init_)
INIT(mpi_init__)
INIT(MPI_INIT)
INIT(mpi_init_f08_)

INIT_THREAD(mpi_init_thread)
INIT_THREAD(mpi_init_thread_)
INIT_THREAD(mpi_init_thread__)
INIT_THREAD(MPI_INIT_THREAD)
INIT_THREAD(mpi_init_thread_f08_)

FINALIZE(mpi_finalize)
FINALIZE(mpi_finalize_)
FINALIZE(mpi_finalize__)
FINALIZE(MPI_FINALIZE)
FINALIZE(mpi_finalize_f08_)

GET_ATTR(mpi_comm_get_attr)
GET_ATTR(mpi_comm_get_attr_)
GET_ATTR(mpi_comm_get_attr__)
GET_ATTR(MPI_COMM_GET_ATTR)
GET_ATTR(mpi_comm_get_attr_f08_)

ATTR_GET(mpi_attr_get)
ATTR_GET(mpi_attr_get_)
ATTR_GET(mpi_attr_get__)
ATTR_GET(MPI_ATTR_GET)
