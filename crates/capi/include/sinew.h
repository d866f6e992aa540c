/* Sockets of the overlay network Sinew, for programs written for BSD sockets.
 *
 *   int s = sinew_socket(AF_INET, SOCK_DGRAM, 0);
 *   struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(5000) };
 *   inet_pton(AF_INET, "10.7.0.3", &to.sin_addr);
 *   sinew_sendto(s, "hello", 5, 0, (struct sockaddr *)&to, sizeof to);
 *
 * An address is a struct sockaddr_in: sin_addr is the overlay address of a node, sin_port a virtual
 * port there, both in network order. INADDR_ANY and 127.0.0.1 mean the program's own node. Types:
 * SOCK_DGRAM, SOCK_STREAM (bytes, reliable), SOCK_SEQPACKET (messages, reliable), with
 * SOCK_NONBLOCK and SOCK_CLOEXEC.
 *
 * Descriptors are real ones: poll, select and epoll work; read, write, shutdown and fcntl do on
 * connected ones; the kernel's own sendto, recvfrom and accept do not. Each call here does on any
 * other descriptor what the kernel's call of that name does, so a program may be renamed as a
 * whole: see sinew_rename.h. A call that fails returns -1 and sets errno as sockets do; ENETDOWN
 * says that no node answers.
 *
 * The node is that of the environment variable SINEW_NODE: the directory or the socket file of a
 * node on this host (net/ams, net/ams/ams.sock), or, of a node on another host, the file that
 * `sinew net clients` has written, or its content, tls://HOST:PORT?token=...&key=... . With
 * dns:example.org the DNS says where the nodes of a domain are (SRV records of
 * _sinew._udp.example.org), and the first that answers is taken; docs/discovery.md tells where their
 * keys are kept. Without it, the only node at hand: below the working directory, or in /run/sinew.
 *
 * Several threads may use one socket. Link with -lsinew.
 */
#ifndef SINEW_H
#define SINEW_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

int sinew_socket(int domain, int type, int protocol);
int sinew_bind(int fd, const struct sockaddr *address, socklen_t length);
int sinew_connect(int fd, const struct sockaddr *address, socklen_t length);
int sinew_listen(int fd, int backlog);
int sinew_accept(int fd, struct sockaddr *address, socklen_t *length);
int sinew_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
ssize_t sinew_send(int fd, const void *buffer, size_t length, int flags);
ssize_t sinew_recv(int fd, void *buffer, size_t length, int flags);
ssize_t sinew_sendto(int fd, const void *buffer, size_t length, int flags,
                     const struct sockaddr *to, socklen_t to_length);
ssize_t sinew_recvfrom(int fd, void *buffer, size_t length, int flags,
                       struct sockaddr *from, socklen_t *from_length);
ssize_t sinew_read(int fd, void *buffer, size_t length);
ssize_t sinew_write(int fd, const void *buffer, size_t length);
int sinew_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int sinew_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int sinew_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int sinew_getpeername(int fd, struct sockaddr *address, socklen_t *length);
int sinew_shutdown(int fd, int how);
int sinew_close(int fd);

/* What the node, or the way to it, last refused to this thread, as a sentence; empty if nothing.
 * Says more than errno does after a call that failed. Valid until the next call. */
const char *sinew_error(void);

/* Groups: bind a datagram socket to the port, then join as with IP multicast, by setsockopt with
 * IPPROTO_IP, IP_ADD_MEMBERSHIP and struct ip_mreq (the interface is not looked at). 224.0.0.0/4 are
 * multicast groups; 240.0.0.0/4 are anycast groups, of which the nearest member gets each packet.
 * Sending to a group needs no joining; what a socket sends does not come back to it. */

/* The level of the options below; each value is an int. */
#define SOL_SINEW 0x534e

/* The protocol on each hop. Datagrams: best effort unless set; streams: reliable. */
#define SINEW_LINK 1
#define SINEW_LINK_BEST_EFFORT 0
#define SINEW_LINK_REAL_TIME 1
#define SINEW_LINK_RELIABLE 2

/* What routes: a metric by table, hop by hop, or a scheme by which the node stamps. */
#define SINEW_ROUTING 2
#define SINEW_ROUTING_HOPS 0
#define SINEW_ROUTING_LATENCY 1
#define SINEW_ROUTING_LOSS 2
#define SINEW_ROUTING_EXPECTED_LATENCY 3
#define SINEW_ROUTING_BEST 4
#define SINEW_ROUTING_DISJOINT 5
#define SINEW_ROUTING_DISJOINT_3 6
#define SINEW_ROUTING_FLOODING 7
#define SINEW_ROUTING_TARGETED 8

/* 0, the lowest, to 7. */
#define SINEW_PRIORITY 3

/* Microseconds after sending for which a packet is of use; 0 for ever. A SOCK_SEQPACKET socket with a
 * deadline gives up messages that could not be there in time, and the others do not wait for them:
 * the end that connects chooses whether messages expire, each end how soon those that it sends do. */
#define SINEW_DEADLINE 4

/* In which order datagrams are handed over: as they come, or the sender's within the deadline. */
#define SINEW_DELIVERY 5
#define SINEW_DELIVERY_AS_IT_COMES 0
#define SINEW_DELIVERY_IN_ORDER 1
#define SINEW_DELIVERY_AS_SENT 2

/* Hops after which a packet is dropped, 1 to 63. */
#define SINEW_TTL 6

/* Bytes of the longest datagram; cannot be set. */
#define SINEW_MAX_PAYLOAD 7

/* Milliseconds of silence of its peer that a stream survives; 0 for what the node has set. */
#define SINEW_GIVE_UP 8

/* Messages of a connected SOCK_SEQPACKET socket that have expired: those that this end has given up,
 * and those of the peer that are missing among what was received; cannot be set. */
#define SINEW_GIVEN_UP 9
#define SINEW_MISSED 10

/* What decides the window of a stream: 0 what the node has set, 1 CUBIC, as kernels have it, 2 BBR,
 * which bears random losses and may take more than its share beside TCP. */
#define SINEW_CONTROL 11

/* 1: connect succeeds at once where this node and the peer's have met before, and what is written goes
 * with the opening of the stream: it may be read before an answer is back, and at most once. Whether
 * anybody takes it is then told by read or write. */
#define SINEW_EARLY 12

/* Of datagrams on real-time links: of a million so many may stay lost on a link, 1 to 65535, and repair packets
 * per hundred packets at most, 0 to 254 (0: packets are asked for again, no more). Each node on the way
 * does as its own settings say with the target 0 and the repair -1. */
#define SINEW_TARGET 13
#define SINEW_REPAIR 14

#ifdef __cplusplus
}
#endif

#endif
