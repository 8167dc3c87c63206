// A server of HTTP/1.1 on epoll, with the two timeouts that each such server needs. A connection
// has one timer. Between requests the timer is the idle timeout of keep-alive. From the first byte
// of a request on it limits the whole header. Further bytes do not push it back, so a client that
// sends a byte now and then holds a connection no longer than others do.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <tvec/tvec.h>

#include "http_clients.h"

static const int64_t ms = 1000000;
static const int64_t idle_limit = 300, header_limit = 200;  // ms; a real server has 75 s and 10 s
enum { longest_header = 1024 };

struct connection {
    int fd;
    int is_in_header;  // some of a request has come
    size_t length;     // of what was read, and not answered yet
    char read[longest_header + 1];
    struct tvec_timer timer;
};

static struct tvec_loop timers;
static int open_connections, closed, idled, late;

static void close_connection(struct connection* c) {
    tvec_unlink(&c->timer);  // its memory is freed
    close(c->fd);
    free(c);
    --open_connections;
    ++closed;
}

// --- answers -------------------------------------------------------------------------------------

// Returns whether the connection is still open. An answer that does not fit the socket ends it: its
// client sends requests, and reads no answers.
static int answer(struct connection* c, const char* status, const char* body, int keep) {
    char text[512];
    const int n = snprintf(text, sizeof text,
                           "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                           "Connection: %s\r\n\r\n%s",
                           status, strlen(body), keep ? "keep-alive" : "close", body);
    if (send(c->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n && keep) return 1;
    close_connection(c);
    return 0;
}

// Returns the value of a field of the header, or NULL. The header ends with an empty line.
static const char* field(const char* header, const char* name) {
    const size_t n = strlen(name);
    for (const char* line = strstr(header, "\r\n"); line && line[2] != '\r';
         line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':')
            return line + 3 + n + strspn(line + 3 + n, " \t");
    return NULL;
}

static int is_value(const char* value, const char* wanted) {
    return value != NULL && strncasecmp(value, wanted, strlen(wanted)) == 0;
}

// Answers a request whose header is complete. Returns whether the connection is still open.
static int answer_request(struct connection* c, const char* header) {
    char method[16], path[256], version[16];
    if (sscanf(header, "%15s %255s HTTP/%15s", method, path, version) != 3)
        return answer(c, "400 Bad Request", "no request line\n", 0);
    const char* const length = field(header, "Content-Length");
    if (field(header, "Transfer-Encoding") || (length && !is_value(length, "0\r")))
        return answer(c, "413 Content Too Large", "this server reads no bodies\n", 0);
    const char* const asked = field(header, "Connection");
    const int keep =
        strcmp(version, "1.0") == 0 ? is_value(asked, "keep-alive") : !is_value(asked, "close");
    if (strcmp(method, "GET") != 0)
        return answer(c, "405 Method Not Allowed", "GET, please\n", keep);
    if (strcmp(path, "/") != 0) return answer(c, "404 Not Found", "only / is here\n", keep);
    return answer(c, "200 OK", "hello\n", keep);
}

// --- timeouts ------------------------------------------------------------------------------------

static void limit(struct connection* c, int64_t limit_ms) {
    tvec_loop_arm_after(&timers, &c->timer, limit_ms * ms);
}

// Limits what comes next, after the bytes so far.
static void limit_next(struct connection* c) {
    if (c->length == 0) {
        limit(c, idle_limit);
    } else if (!c->is_in_header) {  // else the limit of this header goes on
        c->is_in_header = 1;
        limit(c, header_limit);
    }
}

static void on_timeout(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    struct connection* c = TVEC_OWNER_OF(timer, struct connection, timer);
    (void)wheel;
    if (c->is_in_header) {
        ++late;
        answer(c, "408 Request Timeout", "too slow\n", 0);
    } else {
        ++idled;
        close_connection(c);
    }
}

// Answers all requests whose headers are complete, and limits what comes next.
static void on_bytes(struct connection* c) {
    char* end;
    while (c->read[c->length] = '\0', (end = strstr(c->read, "\r\n\r\n")) != NULL) {
        const size_t used = (size_t)(end + 4 - c->read);
        const char after = end[4];
        end[4] = '\0';
        if (!answer_request(c, c->read)) return;
        end[4] = after;
        c->length -= used;
        memmove(c->read, c->read + used, c->length);
        c->is_in_header = 0;
    }
    if (c->length == longest_header)
        answer(c, "431 Request Header Fields Too Large", "too long\n", 0);
    else
        limit_next(c);
}

// --- the loop ------------------------------------------------------------------------------------

static void watch(int loop, int fd, void* who) {
    struct epoll_event wanted = {.events = EPOLLIN, .data = {.ptr = who}};
    need(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &wanted) == 0, "epoll_ctl");
}

static void accept_one(int loop, int listener) {
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;  // the client has gone again
    struct connection* c = calloc(1, sizeof *c);
    need(c != NULL, "calloc");
    c->fd = fd;
    tvec_timer_init(&c->timer, on_timeout);
    limit(c, idle_limit);
    watch(loop, fd, c);
    ++open_connections;
}

static void on_readable(struct connection* c) {
    const ssize_t n = read(c->fd, c->read + c->length, longest_header - c->length);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        close_connection(c);
        return;
    }
    c->length += (size_t)n;
    on_bytes(c);
}

// [loop]
static void serve(int loop, int listener) {
    static struct epoll_event events[1024];  // room for all that may be ready at once
    while (closed < http_clients) {
        const int n = tvec_loop_epoll_wait(&timers, loop, events, 1024);  // or until a timer is due
        need(n >= 0, "epoll_wait");
        for (int i = 0; i < n; ++i) {
            if (events[i].data.ptr == NULL)
                accept_one(loop, listener);
            else
                on_readable(events[i].data.ptr);
        }
        tvec_loop_run(&timers, (size_t)n, 256);  // always, whatever woke us
    }
}
// [loop]

int main(void) {
    struct sockaddr_in where;
    const int listener = listen_here(&where), loop = epoll_create1(EPOLL_CLOEXEC);
    const pid_t child = start_http_clients(&where);
    need(loop >= 0, "epoll_create1");
    need(tvec_loop_init(&timers, TVEC_CLOCK_MONOTONIC, ms) == 0, "clock");
    watch(loop, listener, NULL);
    serve(loop, listener);
    tvec_loop_destroy(&timers);
    close(loop);
    close(listener);
    printf("http: %d connections, %d idle, %d with a header that took too long\n", closed, idled,
           late);
    return !clients_are_content(child) || open_connections != 0 || idled != 2 || late != 1;
}
