/* Echo over UDP and TCP, as books on BSD sockets write it: nothing here knows of overlays.
 *
 *   cc -o echo echo.c                                            the kernel's sockets
 *   cc -include sinew_rename.h -o echo-sinew echo.c -lsinew      the overlay's
 *
 *   echo udp|tcp serve PORT            answers, for ever; prints the port once it is bound
 *   echo udp|tcp ask ADDRESS PORT N    asks N times and checks the answers
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 10000

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static struct sockaddr_in address(const char *ip, const char *port)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons((unsigned short)atoi(port));
    if (inet_pton(AF_INET, ip, &a.sin_addr) != 1) {
        fprintf(stderr, "not an address: %s\n", ip);
        exit(2);
    }
    return a;
}

static int bound(int type, const char *port)
{
    struct sockaddr_in a = address("0.0.0.0", port);
    socklen_t length = sizeof a;
    int one = 1;
    int s = socket(AF_INET, type, 0);
    if (s < 0)
        die("socket");
    if (setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0)
        die("setsockopt");
    if (bind(s, (struct sockaddr *)&a, sizeof a) < 0)
        die("bind");
    if (getsockname(s, (struct sockaddr *)&a, &length) < 0)
        die("getsockname");
    /* Who reads the port may connect at once. */
    if (type == SOCK_STREAM && listen(s, 8) < 0)
        die("listen");
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    return s;
}

static void udp_serve(const char *port)
{
    int s = bound(SOCK_DGRAM, port);
    for (;;) {
        char buffer[65536];
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(s, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &length);
        if (n < 0)
            die("recvfrom");
        if (sendto(s, buffer, (size_t)n, 0, (struct sockaddr *)&from, length) != n)
            die("sendto");
    }
}

static void tcp_serve(const char *port)
{
    int s = bound(SOCK_STREAM, port);
    for (;;) {
        char buffer[4096];
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t n;
        int c = accept(s, (struct sockaddr *)&from, &length);
        if (c < 0)
            die("accept");
        while ((n = read(c, buffer, sizeof buffer)) > 0) {
            ssize_t done = 0;
            while (done < n) {
                ssize_t m = write(c, buffer + done, (size_t)(n - done));
                if (m < 0)
                    die("write");
                done += m;
            }
        }
        if (n < 0)
            perror("read");
        close(c);
    }
}

static void wait_for(int s)
{
    struct pollfd p = {.fd = s, .events = POLLIN};
    int n = poll(&p, 1, PATIENCE_MS);
    if (n < 0)
        die("poll");
    if (n == 0) {
        fprintf(stderr, "no answer\n");
        exit(1);
    }
}

static void ask(int type, const char *ip, const char *port, int times)
{
    struct sockaddr_in to = address(ip, port), peer;
    socklen_t length = sizeof peer;
    char question[64], answer[64], none;
    int i, s = socket(AF_INET, type, 0);
    if (s < 0)
        die("socket");
    if (connect(s, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    if (getpeername(s, (struct sockaddr *)&peer, &length) < 0)
        die("getpeername");
    if (peer.sin_port != to.sin_port) {
        fprintf(stderr, "connected to another port\n");
        exit(1);
    }
    if (recv(s, &none, 1, MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
        fprintf(stderr, "an answer before a question\n");
        exit(1);
    }
    for (i = 0; i < times; i++) {
        size_t have = 0, want = (size_t)snprintf(question, sizeof question, "question %d", i);
        if (send(s, question, want, 0) != (ssize_t)want)
            die("send");
        while (have < want) {
            ssize_t n;
            wait_for(s);
            n = recv(s, answer + have, sizeof answer - have, 0);
            if (n < 0)
                die("recv");
            if (n == 0) {
                fprintf(stderr, "the end instead of an answer\n");
                exit(1);
            }
            have += (size_t)n;
        }
        if (have != want || memcmp(question, answer, want) != 0) {
            fprintf(stderr, "another answer\n");
            exit(1);
        }
    }
    if (type == SOCK_STREAM) {
        if (shutdown(s, SHUT_WR) < 0)
            die("shutdown");
        if (read(s, answer, sizeof answer) != 0) {
            fprintf(stderr, "no end after the last answer\n");
            exit(1);
        }
    }
    if (close(s) < 0)
        die("close");
    printf("%d answers\n", times);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[2], "serve") == 0) {
        if (strcmp(argv[1], "udp") == 0)
            udp_serve(argv[3]);
        if (strcmp(argv[1], "tcp") == 0)
            tcp_serve(argv[3]);
    }
    if (argc == 6 && strcmp(argv[2], "ask") == 0) {
        int type = strcmp(argv[1], "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM;
        ask(type, argv[3], argv[4], atoi(argv[5]));
        return 0;
    }
    fprintf(stderr, "usage: echo udp|tcp serve PORT | ask ADDRESS PORT N\n");
    return 2;
}
