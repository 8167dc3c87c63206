// An echo server on io_uring that closes connections on which nothing was heard for 50 ms. The
// deadline of the timers is an argument of the reactor's own wait.
#define _GNU_SOURCE
#include <liburing.h>
#include <tvec/tvec_uring.h>

#include "clients.h"

static const int64_t ms = 1000000;

struct connection {
    int fd;
    int is_sending;
    char words[256];
    struct tvec_timer idle;
};

static struct tvec_loop timers;
static struct io_uring ring;
static int closed;

static void on_idle(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;  // the kernel's request completes now, and then the connection ends
    shutdown(TVEC_OWNER_OF(timer, struct connection, idle)->fd, SHUT_RDWR);
}

static struct io_uring_sqe* request(void) {
    struct io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    need(sqe != NULL, "io_uring_get_sqe");
    return sqe;
}

static void start_accept(int listener) {
    struct io_uring_sqe* sqe = request();
    io_uring_prep_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
    io_uring_sqe_set_data(sqe, NULL);
}

static void start_receive(struct connection* c) {
    struct io_uring_sqe* sqe = request();
    io_uring_prep_recv(sqe, c->fd, c->words, sizeof c->words, 0);
    io_uring_sqe_set_data(sqe, c);
    c->is_sending = 0;
}

static void start_send(struct connection* c, size_t n) {
    struct io_uring_sqe* sqe = request();
    io_uring_prep_send(sqe, c->fd, c->words, n, MSG_NOSIGNAL);
    io_uring_sqe_set_data(sqe, c);
    c->is_sending = 1;
}

static void on_accept(int fd) {
    struct connection* c = malloc(sizeof *c);
    need(c != NULL && fd >= 0, "accept");
    c->fd = fd;
    tvec_timer_init(&c->idle, on_idle);
    tvec_loop_arm_after(&timers, &c->idle, 50 * ms);
    start_receive(c);
}

static void end(struct connection* c) {
    tvec_unlink(&c->idle);  // required before its memory is freed
    close(c->fd);
    free(c);
    ++closed;
}

static void on_words(struct connection* c, int result) {
    if (result <= 0) {
        end(c);
    } else if (c->is_sending) {
        start_receive(c);
    } else {
        tvec_loop_arm_after(&timers, &c->idle, 50 * ms);
        start_send(c, (size_t)result);
    }
}

static void serve(int listener) {
    struct io_uring_cqe* cqe;
    while (closed < clients) {
        size_t heard = 0;
        need(tvec_loop_uring_wait(&timers) == 0, "wait");
        for (; io_uring_peek_cqe(&ring, &cqe) == 0; ++heard) {
            struct connection* c = io_uring_cqe_get_data(cqe);
            const int result = cqe->res;
            io_uring_cqe_seen(&ring, cqe);
            if (c != NULL) {
                on_words(c, result);
            } else {
                on_accept(result);
                start_accept(listener);
            }
        }
        // Always, whatever woke us; after what came, which may have been in time.
        tvec_loop_run(&timers, heard, 256);
    }
}

int main(void) {
    struct sockaddr_in where;
    const int listener = listen_here(&where);
    const pid_t child = start_clients(&where);
    need(io_uring_queue_init(64, &ring, 0) == 0, "io_uring_queue_init");
    need(tvec_loop_uring_init(&timers, &ring, TVEC_CLOCK_MONOTONIC, ms) == 0, "timers");
    start_accept(listener);
    serve(listener);
    tvec_loop_destroy(&timers);
    io_uring_queue_exit(&ring);
    close(listener);
    printf("io_uring: closed %d connections\n", closed);
    return !clients_are_content(child);
}
