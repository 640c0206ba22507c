/* The calls of MPI-IO. Whatever fails ends the whole job with a message and IO_FAILED: the other
 * ranks would wait for ever. */
#include "beffio.h"

#include <stdio.h>

enum { LONGEST_NAME = 4096 };

static void must(const Run *run, int code, const char *action) {
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        (void)MPI_Error_string(code, text, &length);
        (void)fprintf(stderr, "error: rank %d: %s: %s\n", run->rank, action, text);
        give_up(IO_FAILED);
    }
}

static void name_of(const Run *run, int type, char *name) {
    const char *directory = run->options.directory;
    if (type == SEPARATE) {
        (void)snprintf(name, LONGEST_NAME, "%s/beffio-%d-%d", directory, type, run->rank);
    } else {
        (void)snprintf(name, LONGEST_NAME, "%s/beffio-%d", directory, type);
    }
}

void access_open(const Run *run, int type, int method, MPI_File *file) {
    char name[LONGEST_NAME];
    name_of(run, type, name);
    const int mode = method == WRITE ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDWR;
    const MPI_Comm ranks = type == SEPARATE ? MPI_COMM_SELF : MPI_COMM_WORLD;
    must(run, MPI_File_open(ranks, name, mode, MPI_INFO_NULL, file), name);
}

/* Type 0, and type 1 without shared pointers: each process sees its own chunks alone. Type 1: all
 * see what follows the last pattern. */
void access_view(const Run *run, const Pattern *p, MPI_File file) {
    if (p->type > SHARED) {
        return;
    }
    MPI_Datatype chunk = MPI_BYTE, own = MPI_BYTE;
    MPI_Offset begin = p->base;
    if (p->type == SCATTER || run->options.noshared) {
        begin += run->rank * p->chunk;
        must(run, MPI_Type_contiguous((int)p->chunk, MPI_BYTE, &chunk), "a chunk");
        must(run, MPI_Type_create_resized(chunk, 0, p->chunk * run->ranks, &own), "a stride");
        must(run, MPI_Type_commit(&own), "a file type");
    }
    must(run, MPI_File_set_view(file, begin, MPI_BYTE, own, "native", MPI_INFO_NULL), "set view");
    if (own != MPI_BYTE) {
        (void)MPI_Type_free(&own);
        (void)MPI_Type_free(&chunk);
    }
}

static int write_one(const Run *run, const Pattern *p, MPI_Offset at, const void *memory,
                     MPI_File file, MPI_Status *status) {
    const int count = (int)p->call;
    switch (p->type) {
    case SCATTER:
        return MPI_File_write_all(file, memory, count, MPI_BYTE, status);
    case SHARED:
        return run->options.noshared
                   ? MPI_File_write_all(file, memory, count, MPI_BYTE, status)
                   : MPI_File_write_ordered(file, memory, count, MPI_BYTE, status);
    case SEGMENTED_COLLECTIVE:
        return MPI_File_write_at_all(file, at, memory, count, MPI_BYTE, status);
    default:
        return MPI_File_write_at(file, at, memory, count, MPI_BYTE, status);
    }
}

static int read_one(const Run *run, const Pattern *p, MPI_Offset at, void *memory, MPI_File file,
                    MPI_Status *status) {
    const int count = (int)p->call;
    switch (p->type) {
    case SCATTER:
        return MPI_File_read_all(file, memory, count, MPI_BYTE, status);
    case SHARED:
        return run->options.noshared ? MPI_File_read_all(file, memory, count, MPI_BYTE, status)
                                     : MPI_File_read_ordered(file, memory, count, MPI_BYTE, status);
    case SEGMENTED_COLLECTIVE:
        return MPI_File_read_at_all(file, at, memory, count, MPI_BYTE, status);
    default:
        return MPI_File_read_at(file, at, memory, count, MPI_BYTE, status);
    }
}

/* One call; a short one is a failure too. */
void access_call(const Run *run, const Pattern *p, int method, int64_t call, void *memory,
                 MPI_File file) {
    static const char *const WHAT[METHODS] = {"write", "rewrite", "read"};
    MPI_Status status;
    const MPI_Offset at = patterns_offset(run, p, call, 0);
    must(run,
         method == READ ? read_one(run, p, at, memory, file, &status)
                        : write_one(run, p, at, memory, file, &status),
         WHAT[method]);
    int count = 0;
    (void)MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != p->call) {
        (void)fprintf(stderr,
                      "error: rank %d: %s of type %d moved %d of %lld bytes: the disk is "
                      "full, or the file was cut\n",
                      run->rank, WHAT[method], p->type, count, (long long)p->call);
        give_up(IO_FAILED);
    }
}

void access_sync(const Run *run, MPI_File file) { must(run, MPI_File_sync(file), "sync"); }

void access_close(const Run *run, MPI_File *file) { must(run, MPI_File_close(file), "close"); }

/* What an earlier run has left, or this one leaves; what is not there need not be removed. */
void access_remove(const Run *run) {
    char name[LONGEST_NAME];
    for (int type = 0; type < TYPES; type++) {
        if (type == SEPARATE || run->rank == 0) {
            name_of(run, type, name);
            (void)MPI_File_delete(name, MPI_INFO_NULL);
        }
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
}
