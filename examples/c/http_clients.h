// The clients of the HTTP server: a child process whose connections are polite, slow, silent or
// wrong. It looks at the answers.
#ifndef EXAMPLES_C_HTTP_CLIENTS_H
#define EXAMPLES_C_HTTP_CLIENTS_H

#include <errno.h>
#include <poll.h>

#include "clients.h"

enum { http_clients = 7 };

static inline int call(const struct sockaddr_in* where) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(fd >= 0, "socket");
    need(connect(fd, (const struct sockaddr*)where, sizeof *where) == 0, "connect");
    return fd;
}

static inline void say(int fd, const char* text) {
    const ssize_t n = (ssize_t)strlen(text);
    need(write(fd, text, (size_t)n) == n, "write");
}

// Reads until `count` answers have come that begin with `status`.
static inline void hear(int fd, int count, const char* status) {
    char heard[4096] = "";
    size_t length = 0;
    while (count > 0) {
        const ssize_t n = read(fd, heard + length, sizeof heard - 1 - length);
        need(n > 0, "an answer");
        heard[length += (size_t)n] = '\0';
        int found = 0;
        for (const char* at = heard; (at = strstr(at, status)) != NULL; ++at) ++found;
        if (found >= count) return;
    }
}

static inline void hear_the_end(int fd) {
    char more[256];
    ssize_t n;
    while ((n = read(fd, more, sizeof more)) > 0) continue;
    need(n == 0, "closed by the server");
    close(fd);
}

static inline void ask_once(const struct sockaddr_in* where, const char* request,
                            const char* status) {
    const int fd = call(where);
    say(fd, request);
    hear(fd, 1, status);
    hear_the_end(fd);
}

// Sends a byte of a header every 20 ms, until it is answered. A byte that crosses the answer resets
// the connection, and the answer may be lost: the server counts it.
static inline void dawdle(const struct sockaddr_in* where) {
    const int fd = call(where);
    static const char wanted[] = "HTTP/1.1 408 ";
    char heard[sizeof wanted];
    struct pollfd answered = {.fd = fd, .events = POLLIN, .revents = 0};
    say(fd, "GET / HTTP/1.1\r\nX: ");
    while (poll(&answered, 1, 20) == 0) send(fd, "x", 1, MSG_NOSIGNAL);
    const ssize_t n = recv(fd, heard, strlen(wanted), MSG_WAITALL);
    need(n < 0 ? errno == ECONNRESET : memcmp(heard, wanted, (size_t)n) == 0, wanted);
    close(fd);
}

static inline void talk_http(const struct sockaddr_in* where) {
    static const char get[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    const int silent = call(where), polite = call(where);
    char many[2048];
    say(polite, get);
    hear(polite, 1, "HTTP/1.1 200 OK");
    say(polite, "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET /no HTTP/1.1\r\n\r\n");  // at once
    hear(polite, 1, "HTTP/1.1 404 ");
    ask_once(where, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n", "HTTP/1.1 200 OK");
    ask_once(where, "hello\r\n\r\n", "HTTP/1.1 400 ");
    ask_once(where, "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 413 ");
    memset(many, 'x', sizeof many - 1);
    many[1024] = '\0';
    ask_once(where, many, "HTTP/1.1 431 ");
    dawdle(where);
    hear_the_end(silent);
    hear_the_end(polite);
    _exit(0);
}

// The child that does this.
static inline pid_t start_http_clients(const struct sockaddr_in* where) {
    const pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) talk_http(where);
    return child;
}

#endif
