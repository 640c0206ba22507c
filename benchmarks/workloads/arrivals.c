// `arrivals FILE`: an HTTP server on a free port of the loopback, which it prints. Each request that is here by one
// read is answered; when and on which connection it came, by the kernel's own stamp of the packet, goes to FILE at
// SIGTERM: two 64-bit numbers each, nanoseconds and the connection. The stamp is taken as the generator sends, so
// how late this program is woken is in nobody's figure.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 4000000
#define EVENTS 256

struct arrival {
    uint64_t instant_ns;
    uint64_t connection;
};

static struct arrival arrivals[MOST];
static size_t count;
static uint64_t connection_of[65536];
static volatile sig_atomic_t ended;

static const char KEPT[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static const char LAST[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

static void end(int number) {
    (void)number;
    ended = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int listening(void) {
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(descriptor, 4096) < 0)
        fail("listen");
    // Connections inherit it.
    if (setsockopt(descriptor, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) < 0)
        fail("SO_TIMESTAMPNS");
    if (setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) fail("TCP_NODELAY");
    getsockname(descriptor, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return descriptor;
}

static uint64_t stamp(struct msghdr *message) {
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec instant;
            memcpy(&instant, CMSG_DATA(part), sizeof instant);
            return (uint64_t)instant.tv_sec * 1000000000u + (uint64_t)instant.tv_nsec;
        }
    fputs("a packet without a stamp\n", stderr);
    exit(1);
}

static void answer(int descriptor) {
    char text[4096], control[256];
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t length = recvmsg(descriptor, &message, MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (length <= 0) {
        close(descriptor);
        return;
    }
    text[length] = 0;
    if (count == MOST || length < 4 || strcmp(text + length - 4, "\r\n\r\n") != 0) {
        fputs("no whole request in one packet, or too many\n", stderr);
        exit(1);
    }
    arrivals[count++] = (struct arrival){stamp(&message), connection_of[descriptor]};
    int last = strstr(text, "onnection: close") != NULL || strstr(text, "HTTP/1.0") != NULL;
    const char *reply = last ? LAST : KEPT;
    if (send(descriptor, reply, strlen(reply), MSG_NOSIGNAL) < 0 || last) close(descriptor);
}

static void serve(int listener) {
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN, .data.fd = listener};
    uint64_t connections = 0;
    int poll = epoll_create1(EPOLL_CLOEXEC);
    if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event) < 0) fail("epoll");
    while (!ended) {
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int at = 0; at < ready; at++) {
            if (events[at].data.fd != listener) {
                answer(events[at].data.fd);
                continue;
            }
            int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (descriptor < 0 || descriptor >= 65536) continue;
            connection_of[descriptor] = connections++;
            event.data.fd = descriptor;
            if (epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) < 0) fail("epoll_ctl");
        }
    }
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = end};
    if (argc != 2) return 2;
    sigaction(SIGTERM, &action, NULL);
    serve(listening());
    FILE *file = fopen(argv[1], "wb");
    if (file == NULL || fwrite(arrivals, sizeof *arrivals, count, file) != count ||
        fclose(file) != 0)
        fail(argv[1]);
    return 0;
}
