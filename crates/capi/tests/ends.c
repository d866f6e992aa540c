/* Gives a file over a stream, or takes one, and says by its exit status whether that was the whole.
 *
 *   ends take FILE                 prints the port, takes one stream, and writes it to the file
 *   ends give ADDRESS PORT FILE    writes the file, ends, and waits until the other end has closed
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sinew.h"

static char buffer[65536];

static void die(const char *what)
{
    fprintf(stderr, "%s: ", what);
    perror(sinew_error());
    exit(1);
}

static struct sockaddr_in address(const char *ip, const char *port)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons((unsigned short)atoi(port));
    if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
        die("address");
    return a;
}

static FILE *opened(const char *name, const char *mode)
{
    FILE *file = fopen(name, mode);
    if (file == NULL)
        die("fopen");
    return file;
}

static int take(const char *name)
{
    FILE *file = opened(name, "w");
    struct sockaddr_in a = address("0.0.0.0", "0");
    socklen_t length = sizeof a;
    ssize_t got;
    int stream;
    int s = sinew_socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || sinew_bind(s, (struct sockaddr *)&a, sizeof a) < 0 || sinew_listen(s, 1) < 0)
        die("listen");
    if (sinew_getsockname(s, (struct sockaddr *)&a, &length) < 0)
        die("getsockname");
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    stream = sinew_accept(s, NULL, NULL);
    if (stream < 0)
        die("accept");
    while ((got = sinew_recv(stream, buffer, sizeof buffer, 0)) > 0) {
        if (fwrite(buffer, 1, (size_t)got, file) != (size_t)got || fflush(file) != 0)
            die("fwrite");
    }
    if (got < 0)
        die("recv");
    if (fclose(file) != 0)
        die("fclose");
    sinew_close(stream);
    return 0;
}

static int give(const char *ip, const char *port, const char *name)
{
    FILE *file = opened(name, "r");
    struct sockaddr_in a = address(ip, port);
    size_t len, sent;
    ssize_t last;
    int s = sinew_socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || sinew_connect(s, (struct sockaddr *)&a, sizeof a) < 0)
        die("connect");
    while ((len = fread(buffer, 1, sizeof buffer, file)) > 0) {
        for (sent = 0; sent < len; sent += (size_t)last) {
            last = sinew_send(s, buffer + sent, len - sent, 0);
            if (last < 0)
                die("send");
        }
    }
    if (sinew_shutdown(s, SHUT_WR) < 0)
        die("shutdown");
    if (sinew_recv(s, buffer, sizeof buffer, 0) != 0)
        die("recv");
    sinew_close(s);
    return 0;
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "take") == 0)
        return take(words[2]);
    if (count == 5 && strcmp(words[1], "give") == 0)
        return give(words[2], words[3], words[4]);
    fprintf(stderr, "ends take FILE | give ADDRESS PORT FILE\n");
    return 2;
}
