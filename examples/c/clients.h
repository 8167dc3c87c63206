// The clients of the servers in C, and the address that they talk to. A child process opens a few
// connections, hears its own words on each, falls silent, and waits to be closed. It ends its side
// of the first connection.
#ifndef EXAMPLES_C_CLIENTS_H
#define EXAMPLES_C_CLIENTS_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { clients = 3, leaving = 1 };

static inline void need(int succeeded, const char* what) {
    if (succeeded) return;
    perror(what);
    _exit(1);
}

// A listening socket on a free port of this machine.
static inline int listen_here(struct sockaddr_in* where) {
    socklen_t size = sizeof *where;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(fd >= 0, "socket");
    memset(where, 0, sizeof *where);
    where->sin_family = AF_INET;
    where->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(bind(fd, (struct sockaddr*)where, sizeof *where) == 0, "bind");
    need(listen(fd, clients) == 0, "listen");
    need(getsockname(fd, (struct sockaddr*)where, &size) == 0, "getsockname");
    return fd;
}

static inline void talk(const struct sockaddr_in* where) {
    int fd[clients];
    char heard[6];
    for (int i = 0; i < clients; ++i) {
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        need(fd[i] >= 0, "socket");
        need(connect(fd[i], (const struct sockaddr*)where, sizeof *where) == 0, "connect");
        need(write(fd[i], "hello", 5) == 5, "write");
        if (i < leaving) need(shutdown(fd[i], SHUT_WR) == 0, "shutdown");
        need(recv(fd[i], heard, 5, MSG_WAITALL) == 5 && memcmp(heard, "hello", 5) == 0, "echo");
    }
    for (int i = 0; i < clients; ++i) need(read(fd[i], heard, 1) == 0, "closed by the server");
    _exit(0);
}

// The child that does this.
static inline pid_t start_clients(const struct sockaddr_in* where) {
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) talk(where);
    return child;
}

// Returns whether all went well.
static inline int clients_are_content(pid_t child) {
    int status = 1;
    need(waitpid(child, &status, 0) == child, "waitpid");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif
