/* What each call promises, by the node that SINEW_NODE names. Prints "done" at the end; what does
 * not hold is told with its line. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sinew.h"

extern char **environ;

#define HOLDS(what)                                                                              \
    do {                                                                                         \
        if (!(what)) {                                                                           \
            fprintf(stderr, "line %d: %s: %s (%s)\n", __LINE__, #what, strerror(errno),          \
                    sinew_error());                                                              \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)
#define FAILS(call, number)                                                                      \
    do {                                                                                         \
        errno = 0;                                                                               \
        HOLDS((call) == -1 && errno == (number));                                                \
    } while (0)
#define PATIENCE_MS 20000

static struct sockaddr_in at(const char *ip, int port)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons((unsigned short)port);
    HOLDS(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
    return a;
}

#define SA(a) (struct sockaddr *)&(a), sizeof(a)

static int port_of(int s)
{
    struct sockaddr_in a;
    socklen_t length = sizeof a;
    HOLDS(sinew_getsockname(s, (struct sockaddr *)&a, &length) == 0 && length == sizeof a);
    return ntohs(a.sin_port);
}

static short wait_for(int s, short events)
{
    struct pollfd p = {.fd = s, .events = events};
    HOLDS(poll(&p, 1, PATIENCE_MS) == 1);
    return p.revents;
}

static void other_descriptors(void)
{
    int ends[2];
    char c = 0;
    HOLDS(pipe(ends) == 0);
    HOLDS(sinew_write(ends[1], "x", 1) == 1 && sinew_read(ends[0], &c, 1) == 1 && c == 'x');
    HOLDS(sinew_close(ends[0]) == 0 && sinew_close(ends[1]) == 0);
    FAILS(sinew_close(ends[0]), EBADF);
    FAILS(sinew_socket(AF_INET6, SOCK_STREAM, 0), EAFNOSUPPORT);
    FAILS(sinew_socket(AF_INET, SOCK_RAW, 0), ESOCKTNOSUPPORT);
    FAILS(sinew_socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    int s = sinew_socket(AF_UNIX, SOCK_DGRAM, 0);
    HOLDS(s >= 0 && sinew_close(s) == 0);
}

static void datagrams(void)
{
    struct sockaddr_in any = at("0.0.0.0", 0), from, to;
    socklen_t length = sizeof from;
    char buffer[64];
    static char huge[70000], got[70000];
    int value = 0;
    int a = sinew_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
    int b = sinew_socket(AF_INET, SOCK_DGRAM, 0);
    HOLDS(a >= 0 && b >= 0 && (fcntl(a, F_GETFD) & FD_CLOEXEC) && !(fcntl(b, F_GETFD) & FD_CLOEXEC));
    FAILS(sinew_send(a, "x", 1, 0), EDESTADDRREQ);
    FAILS(sinew_getpeername(a, (struct sockaddr *)&from, &length), ENOTCONN);
    FAILS(sinew_bind(a, (struct sockaddr *)&any, 4), EINVAL);
    to = at("192.0.2.1", 0);
    FAILS(sinew_bind(a, SA(to)), EADDRNOTAVAIL);
    HOLDS(sinew_bind(a, SA(any)) == 0 && port_of(a) > 0);
    FAILS(sinew_bind(a, SA(any)), EINVAL);
    to = at("127.0.0.1", port_of(a));
    FAILS(sinew_bind(b, SA(to)), EADDRINUSE);
    HOLDS(strlen(sinew_error()) > 0);
    to = at("0.0.0.0", 7);
    FAILS(sinew_bind(b, SA(to)), EACCES);

    value = SINEW_LINK_REAL_TIME;
    HOLDS(sinew_setsockopt(b, SOL_SINEW, SINEW_LINK, &value, sizeof value) == 0);
    value = 9;
    FAILS(sinew_setsockopt(b, SOL_SINEW, SINEW_LINK, &value, sizeof value), EINVAL);
    FAILS(sinew_setsockopt(b, SOL_SINEW, 99, &value, sizeof value), ENOPROTOOPT);
    length = sizeof value;
    HOLDS(sinew_getsockopt(b, SOL_SINEW, SINEW_LINK, &value, &length) == 0);
    HOLDS(value == SINEW_LINK_REAL_TIME && length == sizeof value);
    HOLDS(sinew_getsockopt(b, SOL_SOCKET, SO_TYPE, &value, &length) == 0 && value == SOCK_DGRAM);

    FAILS(sinew_recv(a, buffer, sizeof buffer, MSG_DONTWAIT), EAGAIN);
    HOLDS(fcntl(a, F_SETFL, fcntl(a, F_GETFL) | O_NONBLOCK) == 0);
    FAILS(sinew_recv(a, buffer, sizeof buffer, 0), EAGAIN);
    HOLDS(fcntl(a, F_SETFL, fcntl(a, F_GETFL) & ~O_NONBLOCK) == 0);

    to = at("127.0.0.1", port_of(a));
    FAILS(sinew_sendto(b, huge, sizeof huge, 0, SA(to)), EMSGSIZE);
    HOLDS(sinew_sendto(b, "hello", 5, 0, SA(to)) == 5);
    HOLDS(wait_for(a, POLLIN) & POLLIN);
    length = sizeof from;
    HOLDS(sinew_recvfrom(a, buffer, 2, MSG_PEEK, (struct sockaddr *)&from, &length) == 2);
    HOLDS(ntohs(from.sin_port) == port_of(b) && port_of(b) > 0);
    HOLDS(sinew_recv(a, buffer, sizeof buffer, 0) == 5 && memcmp(buffer, "hello", 5) == 0);

    /* Groups, as with IP multicast. */
    struct ip_mreq group = {0};
    inet_pton(AF_INET, "239.1.2.3", &group.imr_multiaddr);
    HOLDS(sinew_setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) == 0);
    HOLDS(sinew_setsockopt(a, IPPROTO_IP, IP_MULTICAST_LOOP, &value, sizeof value) == 0);
    to = at("239.1.2.3", port_of(a));
    HOLDS(sinew_sendto(b, "all", 3, 0, SA(to)) == 3);
    HOLDS(wait_for(a, POLLIN) & POLLIN);
    HOLDS(sinew_recv(a, buffer, sizeof buffer, 0) == 3 && memcmp(buffer, "all", 3) == 0);
    HOLDS(sinew_setsockopt(a, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group) == 0);
    inet_pton(AF_INET, "10.7.0.1", &group.imr_multiaddr);
    FAILS(sinew_setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group), EOPNOTSUPP);
    to = at("127.0.0.1", port_of(a));

    /* The longest datagram whole, cut by a short buffer, and the empty one. */
    length = sizeof value;
    HOLDS(sinew_getsockopt(b, SOL_SINEW, SINEW_MAX_PAYLOAD, &value, &length) == 0);
    HOLDS(value == 65507);
    for (int i = 0; i < 65507; i++) huge[i] = (char)(i * 7);
    HOLDS(sinew_sendto(b, huge, 65507, 0, SA(to)) == 65507);
    HOLDS(sinew_recv(a, got, sizeof got, 0) == 65507 && memcmp(got, huge, 65507) == 0);
    HOLDS(sinew_sendto(b, huge, 65507, 0, SA(to)) == 65507);
    HOLDS(sinew_recv(a, buffer, sizeof buffer, 0) == sizeof buffer);
    HOLDS(sinew_sendto(b, "", 0, 0, SA(to)) == 0);
    HOLDS((wait_for(a, POLLIN) & POLLIN) && sinew_recv(a, buffer, sizeof buffer, 0) == 0);

    /* Connected: bare payload by plain calls, and select. */
    HOLDS(sinew_connect(b, SA(to)) == 0);
    FAILS(sinew_connect(b, SA(to)), EISCONN);
    HOLDS(write(b, "plain", 5) == 5 && sinew_recv(a, buffer, sizeof buffer, 0) == 5);
    HOLDS(write(b, huge, 65507) == 65507 && sinew_recv(a, got, sizeof got, 0) == 65507);
    FAILS(sinew_send(b, huge, sizeof huge, 0), EMSGSIZE);
    HOLDS(sinew_sendto(a, "back", 4, 0, SA(from)) == 4);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(b, &set);
    HOLDS(select(b + 1, &set, NULL, NULL, NULL) == 1 && read(b, buffer, sizeof buffer) == 4);
    length = sizeof from;
    HOLDS(sinew_getpeername(b, (struct sockaddr *)&from, &length) == 0);
    HOLDS(from.sin_port == to.sin_port);
    FAILS(sinew_listen(a, 1), EOPNOTSUPP);
    HOLDS(sinew_close(a) == 0 && sinew_close(b) == 0);
    FAILS(sinew_send(b, "x", 1, 0), EBADF);
}

static int listener(int type)
{
    struct sockaddr_in any = at("0.0.0.0", 0);
    int one = 1, s = sinew_socket(AF_INET, type, 0);
    HOLDS(s >= 0);
    HOLDS(sinew_setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    HOLDS(sinew_bind(s, SA(any)) == 0 && port_of(s) > 0);
    HOLDS(sinew_listen(s, 4) == 0 && port_of(s) > 0);
    FAILS(sinew_connect(s, SA(any)), EISCONN);
    return s;
}

static void streams(void)
{
    char buffer[64];
    struct sockaddr_in to, peer;
    socklen_t length;
    int value = 1, accepted, s = listener(SOCK_STREAM);
    int c = sinew_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP), number = c;
    FAILS(sinew_recv(c, buffer, 1, 0), ENOTCONN);
    FAILS(sinew_accept(c, NULL, NULL), EINVAL);
    to = at("127.0.0.1", 1);
    FAILS(sinew_connect(c, SA(to)), ECONNREFUSED);
    to = at("127.0.0.1", port_of(s));
    HOLDS(sinew_setsockopt(c, IPPROTO_TCP, 1 /* TCP_NODELAY */, &value, sizeof value) == 0);
    HOLDS(sinew_connect(c, SA(to)) == 0 && c == number);
    HOLDS(wait_for(s, POLLIN) & POLLIN);
    length = sizeof peer;
    accepted = sinew_accept(s, (struct sockaddr *)&peer, &length);
    HOLDS(accepted >= 0 && ntohs(peer.sin_port) == port_of(c));
    HOLDS(write(c, "there", 5) == 5);
    HOLDS(wait_for(accepted, POLLIN) & POLLIN);
    HOLDS(sinew_recv(accepted, buffer, 5, MSG_WAITALL) == 5);
    HOLDS(sinew_send(accepted, "back", 4, MSG_NOSIGNAL) == 4);
    HOLDS(sinew_recv(c, buffer, 4, MSG_WAITALL) == 4);
    HOLDS(sinew_shutdown(c, SHUT_WR) == 0);
    HOLDS(sinew_read(accepted, buffer, sizeof buffer) == 0);
    HOLDS(sinew_close(accepted) == 0 && sinew_read(c, buffer, 1) == 0 && sinew_close(c) == 0);

    /* Non-blocking, by epoll, registered before it is open. */
    struct epoll_event event = {.events = EPOLLOUT};
    int e = epoll_create1(0);
    c = sinew_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FAILS(sinew_connect(c, SA(to)), EINPROGRESS);
    HOLDS(epoll_ctl(e, EPOLL_CTL_ADD, c, &event) == 0);
    HOLDS(epoll_wait(e, &event, 1, PATIENCE_MS) == 1 && (event.events & EPOLLOUT));
    length = sizeof value;
    HOLDS(sinew_getsockopt(c, SOL_SOCKET, SO_ERROR, &value, &length) == 0 && value == 0);
    FAILS(sinew_connect(c, SA(to)), EISCONN);
    FAILS(sinew_recv(c, buffer, 1, 0), EAGAIN);
    accepted = sinew_accept4(s, NULL, NULL, SOCK_NONBLOCK);
    HOLDS(accepted >= 0);
    FAILS(sinew_recv(accepted, buffer, 1, 0), EAGAIN);
    HOLDS(sinew_send(c, "soon", 4, 0) == 4 && (wait_for(accepted, POLLIN) & POLLIN));
    HOLDS(sinew_recv(accepted, buffer, sizeof buffer, 0) == 4);
    HOLDS(sinew_send(accepted, "too", 3, 0) == 3 && (wait_for(c, POLLIN) & POLLIN));
    HOLDS(sinew_recv(c, buffer, sizeof buffer, 0) == 3);
    HOLDS(sinew_close(accepted) == 0 && (wait_for(c, POLLIN) & POLLIN));
    HOLDS(sinew_recv(c, buffer, 1, 0) == 0 && sinew_close(c) == 0);

    c = sinew_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    to = at("127.0.0.1", 1);
    FAILS(sinew_connect(c, SA(to)), EINPROGRESS);
    wait_for(c, POLLOUT);
    HOLDS(sinew_getsockopt(c, SOL_SOCKET, SO_ERROR, &value, &length) == 0);
    HOLDS(value == ECONNREFUSED && sinew_close(c) == 0);
    HOLDS(fcntl(s, F_SETFL, O_NONBLOCK) == 0);
    FAILS(sinew_accept(s, NULL, NULL), EAGAIN);
    HOLDS(sinew_close(s) == 0 && sinew_close(e) == 0);
}

static void messages(void)
{
    char buffer[64];
    int s = listener(SOCK_SEQPACKET), c = sinew_socket(AF_INET, SOCK_SEQPACKET, 0), accepted;
    struct sockaddr_in to = at("127.0.0.1", port_of(s));
    HOLDS(sinew_connect(c, SA(to)) == 0);
    accepted = sinew_accept(s, NULL, NULL);
    HOLDS(accepted >= 0);
    HOLDS(sinew_send(c, "one", 3, 0) == 3 && sinew_send(c, "second", 6, 0) == 6);
    FAILS(sinew_send(c, "", 0, 0), EINVAL);
    HOLDS(sinew_recv(accepted, buffer, sizeof buffer, 0) == 3);
    HOLDS(sinew_recv(accepted, buffer, sizeof buffer, 0) == 6);
    HOLDS(sinew_close(accepted) == 0 && sinew_close(c) == 0 && sinew_close(s) == 0);
}

/* What a program wrote last, before it ended without closing anything, arrives. */
enum { LAST_BYTES = 150000 };

static int leave(int port)
{
    static char bytes[LAST_BYTES];
    int c = sinew_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = at("127.0.0.1", port);
    FAILS(sinew_connect(c, SA(to)), EINPROGRESS);
    for (size_t sent = 0; sent < sizeof bytes;) {
        HOLDS(wait_for(c, POLLOUT) & POLLOUT);
        ssize_t n = sinew_send(c, bytes + sent, sizeof bytes - sent, 0);
        HOLDS(n > 0 || errno == EAGAIN);
        sent += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void last_words(char *program)
{
    char port[16], buffer[4096];
    int s = listener(SOCK_STREAM), accepted, status;
    ssize_t n, came = 0;
    snprintf(port, sizeof port, "%d", port_of(s));
    char *arguments[] = {program, "leave", port, NULL};
    pid_t child;
    HOLDS(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
    accepted = sinew_accept(s, NULL, NULL);
    HOLDS(accepted >= 0);
    while ((n = sinew_recv(accepted, buffer, sizeof buffer, 0)) > 0)
        came += n;
    HOLDS(n == 0 && came == LAST_BYTES);
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
    HOLDS(sinew_close(accepted) == 0 && sinew_close(s) == 0);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return leave(atoi(argv[2]));
    other_descriptors();
    datagrams();
    streams();
    messages();
    last_words(argv[0]);
    puts("done");
    return 0;
}
