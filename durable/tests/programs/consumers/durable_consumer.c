// A program in C that uses an installed libtvec-durable-c. Exits with 0 if a timer stored in a file
// is delivered.
#define _DEFAULT_SOURCE
#include <tvec/tvec_durable.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct tvec_durable* timers;
static int done;

static void on_done(void* user, int answer) { done = user == NULL && answer == TVEC_DURABLE_DONE; }

static void on_due(void* user, const struct tvec_durable_delivery* d) {
    tvec_durable_done(timers, d->id, d->id_length, d->attempt, on_done, user);
}

static int deliver_one(void) {
    struct tvec_durable_record r = {.size = sizeof r, .id = "17", .id_length = 2};
    r.due = tvec_durable_now(timers) + 20;
    if (tvec_durable_put(timers, &r, TVEC_DURABLE_KEEP, NULL, NULL) != TVEC_DURABLE_ACCEPTED)
        return 0;
    while (!done) {
        struct pollfd watched = {tvec_durable_fd(timers), POLLIN, 0};
        if (poll(&watched, 1, 20000) != 1 || tvec_durable_run(timers) != 0) return 0;
    }
    return 1;
}

int main(void) {
    char folder[] = "/tmp/tvec-consumer-XXXXXX", text[300];
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
    const struct tvec_durable_options o = {
        .size = sizeof o, .store = "timers.db", .handler = on_due};
    if (tvec_durable_open(&timers, &o, text, sizeof text) != 0) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    const int delivered = deliver_one();
    tvec_durable_close(timers);
    unlink("timers.db");
    return rmdir(folder) != 0 || !delivered;
}
