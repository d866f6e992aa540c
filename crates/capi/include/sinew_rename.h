/* Makes a program that was written for the kernel's sockets use the overlay's:
 *
 *   cc -include sinew_rename.h echo.c -lsinew
 *
 * Sockets of AF_INET become the overlay's; every other descriptor stays what it is.
 */
#ifndef SINEW_RENAME_H
#define SINEW_RENAME_H

/* First, so that the system's own declarations keep their names. */
#include <sys/socket.h>
#include <unistd.h>

#include "sinew.h"

#define socket(...) sinew_socket(__VA_ARGS__)
#define bind(...) sinew_bind(__VA_ARGS__)
#define connect(...) sinew_connect(__VA_ARGS__)
#define listen(...) sinew_listen(__VA_ARGS__)
#define accept(...) sinew_accept(__VA_ARGS__)
#define accept4(...) sinew_accept4(__VA_ARGS__)
#define send(...) sinew_send(__VA_ARGS__)
#define recv(...) sinew_recv(__VA_ARGS__)
#define sendto(...) sinew_sendto(__VA_ARGS__)
#define recvfrom(...) sinew_recvfrom(__VA_ARGS__)
#define read(...) sinew_read(__VA_ARGS__)
#define write(...) sinew_write(__VA_ARGS__)
#define setsockopt(...) sinew_setsockopt(__VA_ARGS__)
#define getsockopt(...) sinew_getsockopt(__VA_ARGS__)
#define getsockname(...) sinew_getsockname(__VA_ARGS__)
#define getpeername(...) sinew_getpeername(__VA_ARGS__)
#define shutdown(...) sinew_shutdown(__VA_ARGS__)
#define close(...) sinew_close(__VA_ARGS__)

#endif
