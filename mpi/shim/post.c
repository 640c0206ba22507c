/* Messages between two ranks over MPI, none of which is waited for without a deadline. */
#include "shim.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Between two looks of somebody awake there is no more than this: more is a process that was taken
 * off its processor. */
#define AWAKE_NS 5000
/* An answer takes less, unless somebody has to be woken up. */
#define SOON_NS 20000

void post_open(Post *post, MPI_Comm comm, int peer, int out_tag, int in_tag) {
    *post = (Post){.comm = comm, .peer = peer, .out_tag = out_tag, .in_tag = in_tag};
}

static bool post_receive(Post *post) {
    if (!post->posted) {
        post->posted = PMPI_Irecv(post->buffer, (int)sizeof post->buffer, MPI_BYTE, post->peer,
                                  post->in_tag, post->comm, &post->in) == MPI_SUCCESS;
    }
    return post->posted;
}

void post_close(Post *post) {
    if (post->posted) {
        (void)PMPI_Cancel(&post->in);
        (void)PMPI_Wait(&post->in, MPI_STATUS_IGNORE);
        post->posted = false;
    }
}

static void nap(void) { (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); }

/* The one that is waited for may need this one's processor: where there are more ranks than
 * processors, and where the scheduler has put both on one, which shows when no answer comes. */
void post_relax(uint64_t waited_ns) {
    if (shim.crowded || waited_ns > SOON_NS) {
        (void)sched_yield();
    }
}

void post_leave(void) {
    if (!shim.crowded) {
        nap();
    }
}

/* The turn of others: they need the processors more. */
static void post_idle(uint64_t waited_ns) {
    if (shim.crowded || waited_ns > SOON_NS) {
        nap();
    }
}

bool post_collective(int code, MPI_Request *request) {
    return code == MPI_SUCCESS && post_finish(request, UINT64_MAX);
}

bool post_barrier(void) {
    MPI_Request request = MPI_REQUEST_NULL;
    return post_collective(PMPI_Ibarrier(shim.world, &request), &request);
}

bool post_tell(void *bytes, size_t count, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    return post_collective(PMPI_Ibcast(bytes, (int)count, MPI_BYTE, 0, comm, &request), &request);
}

bool post_finish(MPI_Request *request, uint64_t within_ns) {
    const uint64_t start_ns = ullage_clock_ordered();
    for (;;) {
        int done = 0;
        if (PMPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return false;
        }
        const uint64_t age_ns = ullage_clock_ordered() - start_ns;
        if (done || age_ns > within_ns) {
            return done;
        }
        post_idle(age_ns);
    }
}

/* What is being sent, which MPI reads until it says that it is done. */
static uint8_t *outgoing;

bool post_send(Post *post, const void *bytes, int length) {
    MPI_Request request = MPI_REQUEST_NULL;
    post->empty_ns = 0;
    outgoing = outgoing != NULL ? outgoing : malloc(sizeof post->buffer);
    if (outgoing == NULL || (size_t)length > sizeof post->buffer) {
        return false;
    }
    memcpy(outgoing, bytes, (size_t)length);
    post->messages++;
    if (PMPI_Isend(outgoing, length, MPI_BYTE, post->peer, post->out_tag, post->comm, &request) !=
        MPI_SUCCESS) {
        return false;
    }
    int done = 0;
    if (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
        (done || post_finish(&request, shim.common.deadline_ns))) {
        return true;
    }
    /* Leaked on purpose: MPI may read it at any time from now on, and a send that was cancelled may
     * have to be waited for without end. */
    outgoing = NULL;
    return false;
}

bool post_look(Post *post) {
    int arrived = 0;
    MPI_Status status;
    if (!post_receive(post) || PMPI_Test(&post->in, &arrived, &status) != MPI_SUCCESS || !arrived) {
        return false;
    }
    post->posted = false;
    post->messages++;
    return PMPI_Get_count(&status, MPI_BYTE, &post->length) == MPI_SUCCESS;
}

bool post_awake(const Post *post, uint64_t now_ns) {
    return !shim.crowded && post->empty_ns != 0 && now_ns - post->empty_ns <= AWAKE_NS;
}

bool post_wait(Post *post, uint64_t within_ns) {
    const uint64_t start_ns = ullage_clock_ordered();
    for (;;) {
        if (post_look(post)) {
            return true;
        }
        const uint64_t age_ns = ullage_clock_ordered() - start_ns;
        if (age_ns > within_ns) {
            return false;
        }
        post_idle(age_ns);
    }
}
