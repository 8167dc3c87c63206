// The C interface of durable timers, from C: each promise of tvec_durable.h once. The argument is a
// folder that is empty.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tvec/tvec_durable.h"

static int faults;
#define CHECK(claim) check((claim), #claim, __LINE__)
static void check(int holds, const char* claim, int line) {
    if (holds) return;
    fprintf(stderr, "c_interface.c:%d: %s\n", line, claim);
    ++faults;
}

enum { none = 99 };

struct program {
    struct tvec_durable* timers;
    char store[200], text[300];
    int answer, deliveries, ends, shown;
    uint32_t attempt;
    struct tvec_durable_totals totals;
    char last[16], history[100];
    int ended, extended, failed;
};

static void note(void* user, int answer) { ((struct program*)user)->answer = answer; }

static void note_totals(void* user, int answer, const struct tvec_durable_totals* n) {
    struct program* p = user;
    p->answer = answer;
    p->totals = *n;
}

static void note_ended(void* user, int answer) {
    ((struct program*)user)->ended += answer == TVEC_DURABLE_DONE;
}

static void note_extended(void* user, int answer) {
    ((struct program*)user)->extended += answer == TVEC_DURABLE_DONE;
}

static void note_failed(void* user, int answer) {
    ((struct program*)user)->failed += answer == TVEC_DURABLE_DONE;
}

static void show(void* user, const struct tvec_durable_timer* t) {
    struct program* p = user;
    ++p->shown;
    p->attempt = t->attempt;
    snprintf(p->last, sizeof p->last, "%.*s", (int)t->id_length, t->id);
    snprintf(p->history, sizeof p->history, "%.*s", (int)t->history_length, t->history);
}

static void on_due(void* user, const struct tvec_durable_delivery* d) {
    struct program* p = user;
    CHECK(d->due <= tvec_durable_now(p->timers));
    CHECK(d->body_length == 4 && memcmp(d->body, "bo\0y", 4) == 0);
    ++p->deliveries;
    p->attempt = d->attempt;
    if (p->ends == 0) return;
    if (p->ends >= 100) {
        const char* const why = "out of paper";
        tvec_durable_extend(p->timers, d->id, d->id_length, d->attempt, 1000, note_extended, p);
        tvec_durable_fail(p->timers, d->id, d->id_length, d->attempt, why, strlen(why), note_failed,
                          p);
    } else if (p->ends == 1)
        tvec_durable_again(p->timers, d->id, d->id_length, d->attempt, d->due + 1, note_ended, p);
    else
        tvec_durable_done(p->timers, d->id, d->id_length, d->attempt, note_ended, p);
    ++p->ends;
}

static int open_it(struct program* p) {
    const struct tvec_durable_options o = {.size = sizeof o,
                                           .store = p->store,
                                           .handler = on_due,
                                           .user = p,
                                           .claim_lease = 100,
                                           .attempts = 2};
    return tvec_durable_open(&p->timers, &o, p->text, sizeof p->text);
}

static void turn(struct program* p) {
    struct pollfd watched = {tvec_durable_fd(p->timers), POLLIN, 0};
    CHECK(poll(&watched, 1, 20000) == 1);  // without a rearm or a timeout of the caller
    CHECK(tvec_durable_run(p->timers) == 0);
}

static int answer(struct program* p, int refusal) {
    CHECK(refusal == TVEC_DURABLE_ACCEPTED);
    while (p->answer == none) turn(p);
    const int a = p->answer;
    p->answer = none;
    return a;
}

static struct tvec_durable_record timer(const char* id, tvec_durable_ms due) {
    const struct tvec_durable_record r = {sizeof r, id, strlen(id), due, "bo\0y", 4, 0, NULL, 0};
    return r;
}

static int put(struct program* p, const char* id, tvec_durable_ms in,
               enum tvec_durable_existing how) {
    const struct tvec_durable_record r = timer(id, tvec_durable_now(p->timers) + in);
    return answer(p, tvec_durable_put(p->timers, &r, how, note, p));
}

// Nothing else wakes it within the limit of a turn: the window is looked at after 30 s.
static void an_end_outside_of_a_callback_is_sent(struct program* p) {
    struct pollfd watched = {tvec_durable_fd(p->timers), POLLIN, 0};
    while (poll(&watched, 1, 500) == 1) tvec_durable_run(p->timers);  // until nothing is left to do
    CHECK(answer(p, tvec_durable_done(p->timers, "x", 1, 1, note, p)) == TVEC_DURABLE_STALE);
}

static void a_timer_is_stored_found_and_cancelled(struct program* p) {
    CHECK(put(p, "a", 3600000, TVEC_DURABLE_KEEP) == TVEC_DURABLE_STORED);
    CHECK(put(p, "a", 3600000, TVEC_DURABLE_KEEP) == TVEC_DURABLE_THERE_ALREADY);
    CHECK(put(p, "a", 3500000, TVEC_DURABLE_LATER) == TVEC_DURABLE_THERE_ALREADY);
    CHECK(put(p, "a", 3500000, TVEC_DURABLE_SOONER) == TVEC_DURABLE_STORED);
    CHECK(put(p, "b", 3700000, TVEC_DURABLE_REPLACE) == TVEC_DURABLE_STORED);
    CHECK(answer(p, tvec_durable_find(p->timers, "a", 1, show, note, p)) == TVEC_DURABLE_DONE);
    CHECK(p->shown == 1);
    CHECK(answer(p, tvec_durable_list(p->timers, TVEC_DURABLE_WAITING, 0, "", 0, "", 0, 10, show,
                                      note, p)) == TVEC_DURABLE_DONE);
    CHECK(p->shown == 3 && strcmp(p->last, "b") == 0);
    CHECK(answer(p, tvec_durable_count(p->timers, note_totals, p)) == TVEC_DURABLE_DONE);
    CHECK(p->totals.waiting == 2 && p->totals.dead == 0);
    CHECK(answer(p, tvec_durable_cancel(p->timers, "a", 1, note, p)) == TVEC_DURABLE_CANCELLED);
    CHECK(answer(p, tvec_durable_touch(p->timers, "b", 1, 4000000000000, note, p)) ==
          TVEC_DURABLE_TOUCHED);
    CHECK(answer(p, tvec_durable_touch(p->timers, "x", 1, 1, note, p)) == TVEC_DURABLE_UNKNOWN_ID);
    CHECK(answer(p, tvec_durable_cancel(p->timers, "b", 1, note, p)) == TVEC_DURABLE_CANCELLED);
    CHECK(answer(p, tvec_durable_cancel(p->timers, "a", 1, note, p)) == TVEC_DURABLE_UNKNOWN_ID);
    CHECK(answer(p, tvec_durable_find(p->timers, "a", 1, show, note, p)) ==
          TVEC_DURABLE_UNKNOWN_ID);
}

static void a_timer_comes_again_until_it_is_done(struct program* p) {
    p->deliveries = 0;
    p->ends = 1;
    CHECK(put(p, "c", 20, TVEC_DURABLE_KEEP) == TVEC_DURABLE_STORED);
    while (p->ended < 2) turn(p);
    CHECK(p->deliveries == 2 && p->attempt == 2);
    CHECK(answer(p, tvec_durable_done(p->timers, "c", 1, 2, note, p)) == TVEC_DURABLE_STALE);
}

static void a_timer_without_an_end_dies_and_is_revived(struct program* p) {
    p->deliveries = p->ends = 0;
    CHECK(put(p, "d", 1, TVEC_DURABLE_KEEP) == TVEC_DURABLE_STORED);
    do CHECK(answer(p, tvec_durable_count(p->timers, note_totals, p)) == TVEC_DURABLE_DONE);
    while (p->totals.dead == 0);
    CHECK(p->deliveries == 2);
    CHECK(put(p, "d", 1, TVEC_DURABLE_KEEP) == TVEC_DURABLE_DEAD);
    p->shown = 0;
    answer(p, tvec_durable_list(p->timers, TVEC_DURABLE_DEAD_LETTERS, 0, "", 0, "d", 1, 9, show,
                                note, p));
    CHECK(p->shown == 1 && strcmp(p->last, "d") == 0);
    p->ends = 2;
    CHECK(answer(p, tvec_durable_revive(p->timers, "d", 1, 1, note, p)) == TVEC_DURABLE_REVIVED);
    while (p->ended < 3) turn(p);
    CHECK(p->deliveries == 3);
}

// Its plan lets it fail twice.
static void a_timer_that_fails_comes_again_by_its_plan_and_dies(struct program* p) {
    struct tvec_durable_record r = timer("g", 1);
    r.plan = "retry fixed 10ms|attempts 2";
    r.plan_length = strlen(r.plan);
    p->deliveries = 0;
    p->ends = 100;  // extends its lease, and fails
    CHECK(answer(p, tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p)) ==
          TVEC_DURABLE_STORED);
    do CHECK(answer(p, tvec_durable_count(p->timers, note_totals, p)) == TVEC_DURABLE_DONE);
    while (p->totals.dead == 0);
    CHECK(p->deliveries == 2 && p->extended == 2 && p->failed == 2);
    answer(p, tvec_durable_list(p->timers, TVEC_DURABLE_DEAD_LETTERS, 0, "", 0, "g", 1, 9, show,
                                note, p));
    CHECK(strstr(p->history, "out of paper") != NULL);
    CHECK(answer(p, tvec_durable_cancel(p->timers, "g", 1, note, p)) == TVEC_DURABLE_HAD_BEGUN);
}

static void a_call_beyond_the_limits_is_refused_and_has_a_text(struct program* p) {
    struct tvec_durable_record r = timer("", 1);
    CHECK(tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p) == TVEC_DURABLE_BAD_ID);
    r = timer("e", -1);
    CHECK(tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p) == TVEC_DURABLE_BAD_DUE);
    r = timer("e", 1);
    r.every = -1;
    CHECK(tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p) == TVEC_DURABLE_BAD_PERIOD);
    r.every = 0;
    r.body_length = 1048577;
    char* large = calloc(1, r.body_length);
    r.body = large;
    CHECK(tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p) ==
          TVEC_DURABLE_BODY_TOO_LARGE);
    free(large);
    r = timer("e", 1);
    r.plan = "retry never";
    r.plan_length = strlen(r.plan);
    CHECK(tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p) == TVEC_DURABLE_BAD_PLAN);
    CHECK(tvec_durable_extend(p->timers, "e", 1, 1, 0, note, p) == TVEC_DURABLE_BAD_LEASE);
    CHECK(strstr(tvec_durable_text(TVEC_DURABLE_BAD_ID), "id") != NULL);
    CHECK(tvec_durable_text(-77) != NULL);
    CHECK(tvec_durable_failure(p->timers, p->text, sizeof p->text) == 0 && p->text[0] == '\0');
}

// A program of an older version knows fewer members, and its memory ends behind them.
static void a_struct_of_an_older_version_is_read_as_far_as_it_goes(struct program* p) {
    struct tvec_durable_record r = timer("f", tvec_durable_now(p->timers) + 3600000);
    r.size = offsetof(struct tvec_durable_record, every);
    r.every = -1;
    CHECK(answer(p, tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p)) ==
          TVEC_DURABLE_STORED);
    CHECK(answer(p, tvec_durable_cancel(p->timers, "f", 1, note, p)) == TVEC_DURABLE_CANCELLED);
}

static void a_struct_whose_size_is_wrong_is_refused(struct program* p) {
    const size_t wrong[] = {0, 8, sizeof(struct tvec_durable_record) - 1, (size_t)-8};
    struct tvec_durable_record r = timer("h", tvec_durable_now(p->timers) + 3600000);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        r.size = wrong[i];
        CHECK(tvec_durable_put(p->timers, &r, TVEC_DURABLE_KEEP, note, p) == TVEC_DURABLE_BAD_SIZE);
    }
    CHECK(strstr(tvec_durable_text(TVEC_DURABLE_BAD_SIZE), "size") != NULL);
    CHECK(answer(p, tvec_durable_find(p->timers, "h", 1, show, note, p)) ==
          TVEC_DURABLE_UNKNOWN_ID);
}

// A member that this version ignored would be an option that has no effect.
static void a_struct_of_a_later_version_is_read_if_its_new_members_are_0(struct program* p) {
    struct {
        struct tvec_durable_record r;
        uint64_t later;
    } larger = {timer("i", tvec_durable_now(p->timers) + 3600000), 1};
    larger.r.size = sizeof larger;
    CHECK(tvec_durable_put(p->timers, &larger.r, TVEC_DURABLE_KEEP, note, p) ==
          TVEC_DURABLE_BAD_SIZE);
    larger.later = 0;
    CHECK(answer(p, tvec_durable_put(p->timers, &larger.r, TVEC_DURABLE_KEEP, note, p)) ==
          TVEC_DURABLE_STORED);
    CHECK(answer(p, tvec_durable_cancel(p->timers, "i", 1, note, p)) == TVEC_DURABLE_CANCELLED);
}

static int refused(const struct tvec_durable_options* o, const char* why) {
    struct tvec_durable* none_at_all = NULL;
    char text[300] = "";
    const int result = tvec_durable_open(&none_at_all, o, text, sizeof text);
    if (strstr(text, why) == NULL) fprintf(stderr, "%d: %s\n", result, text);
    return none_at_all == NULL && result == -EINVAL && strstr(text, why) != NULL;
}

// A file that is opened by mistake would be new.
static void options_that_are_wrong_are_refused_and_open_nothing(const char* folder) {
    char file[300];
    snprintf(file, sizeof file, "%s/not_to_be_opened.db", folder);
    const struct tvec_durable_options right = {
        .size = sizeof right, .store = file, .handler = on_due};
    struct tvec_durable_options o = right;
    o.size = 0;
    CHECK(refused(&o, "size is 0"));
    o.size = 37;
    CHECK(refused(&o, "size is 37"));
    o = right;
    o.handler = NULL;
    CHECK(refused(&o, "handler is null"));
    CHECK(access(file, F_OK) != 0);
    o = right;
    o.store = NULL;
    CHECK(refused(&o, "store is null"));
    if (getenv("TVEC_HAS_REDIS") == NULL) return;
    const char* const wrong[] = {
        "redis:localhost:0", "redis:localhost:65536",     "redis:localhost:6379x",
        "redis:localhost:",  "redis:user:word@localhost", "rediss:localhost:0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        o.store = wrong[i];
        CHECK(refused(&o, "expected"));
    }
}

static void a_store_that_cannot_be_opened_says_why(struct program* p, const char* folder) {
    struct program other = {0};
    strcpy(other.store, p->store);
    CHECK(open_it(&other) == -EBUSY && strstr(other.text, "locked") != NULL);
    snprintf(other.store, sizeof other.store, "redis:%s/socket", folder);
    const int opened = open_it(&other);
    CHECK(opened < 0 && strlen(other.text) > 10);
    if (opened == -ENOTSUP) CHECK(strstr(other.text, "libtvec-durable-redis.so") != NULL);
    if (getenv("TVEC_HAS_REDIS")) CHECK(opened != -ENOTSUP);
    strcpy(other.store, "postgres:host=/nowhere");
    CHECK(open_it(&other) < 0 && strlen(other.text) > 10);
}

static void a_stop_is_answered_and_refuses_what_comes_later(struct program* p) {
    tvec_durable_stop(p->timers, 5000, note, p);
    CHECK(answer(p, TVEC_DURABLE_ACCEPTED) == TVEC_DURABLE_DONE);
    CHECK(tvec_durable_cancel(p->timers, "a", 1, note, p) == TVEC_DURABLE_STOPPING);
}

int main(int count, char** words) {
    static struct program p;
    if (count != 2) return 2;
    snprintf(p.store, sizeof p.store, "%s/timers.db", words[1]);
    p.answer = none;
    if (open_it(&p) != 0) {
        fprintf(stderr, "%s\n", p.text);
        return 1;
    }
    an_end_outside_of_a_callback_is_sent(&p);
    a_timer_is_stored_found_and_cancelled(&p);
    a_timer_comes_again_until_it_is_done(&p);
    a_timer_without_an_end_dies_and_is_revived(&p);
    a_timer_that_fails_comes_again_by_its_plan_and_dies(&p);
    a_call_beyond_the_limits_is_refused_and_has_a_text(&p);
    a_struct_of_an_older_version_is_read_as_far_as_it_goes(&p);
    a_struct_whose_size_is_wrong_is_refused(&p);
    a_struct_of_a_later_version_is_read_if_its_new_members_are_0(&p);
    options_that_are_wrong_are_refused_and_open_nothing(words[1]);
    a_store_that_cannot_be_opened_says_why(&p, words[1]);
    a_stop_is_answered_and_refuses_what_comes_later(&p);
    tvec_durable_close(p.timers);
    tvec_durable_close(NULL);
    return faults != 0;
}
