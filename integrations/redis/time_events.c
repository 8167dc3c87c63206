/* What ae.h promises of time events, asked of an ae.c: linked once with the stock one and once with
 * that on tvec. Prints a line for each that does not hold, and exits 1 if there is one. */
#include "ae.h" /* first: it chooses features of the C library */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "monotonic.h"

static int failures;

static void expect(bool holds, const char* what) {
    if (holds) return;
    printf("failed: %s\n", what);
    failures++;
}

/* What a callback does, and what became of its event. */
struct event {
    int answers;           /* what the callback returns */
    long long* deletes[2]; /* the ids that it deletes */
    struct event* creates; /* and an event that it makes, without delay */
    bool runs_the_loop;
    long long id, called_with;
    monotime called_at;
    int calls, finals, finals_when_called;
};

static aeEventLoop* loop;

static int pass(void) { return aeProcessEvents(loop, AE_TIME_EVENTS | AE_DONT_WAIT); }

static void create(struct event* event, long long milliseconds);

static int called(struct aeEventLoop* in, long long id, void* data) {
    struct event* event = data;
    event->calls++;
    event->called_with = id;
    event->called_at = getMonotonicUs();
    for (int i = 0; i < 2; i++)
        if (event->deletes[i]) aeDeleteTimeEvent(in, *event->deletes[i]);
    if (event->creates) create(event->creates, 0);
    if (event->runs_the_loop) {
        event->runs_the_loop = false;
        pass();
    }
    event->finals_when_called = event->finals;
    return event->answers;
}

static void finalized(struct aeEventLoop* in, void* data) {
    (void)in;
    ((struct event*)data)->finals++;
}

static void create(struct event* event, long long milliseconds) {
    event->id = aeCreateTimeEvent(loop, milliseconds, called, event, finalized);
}

static void ids_are_counted(void) {
    struct event a = {.answers = AE_NOMORE}, b = {.answers = AE_NOMORE}, c = {.answers = AE_NOMORE};
    create(&a, 1000);
    aeDeleteTimeEvent(loop, a.id);
    pass();
    create(&b, 0);
    create(&c, 0);
    expect(b.id == a.id + 1 && c.id == b.id + 1, "ids are counted up, and not used again");
    pass();
    expect(b.called_with == b.id && c.called_with == c.id, "a callback is given the id");
    pass();
}

/* `run` looks for what is due, or sleeps until then. */
static void call_in_time(int run(void)) {
    struct event a = {.answers = 3};
    monotime begin = getMonotonicUs();
    create(&a, 3);
    for (int calls = 1; calls <= 20; calls++) {
        while (a.calls < calls) run();
        expect(a.called_at - begin >= 3000, "an event is not called before its delay is over");
        begin = a.called_at; /* the delay begins when the callback returns */
    }
    aeDeleteTimeEvent(loop, a.id);
    pass();
}

static int sleep_and_pass(void) { return aeProcessEvents(loop, AE_TIME_EVENTS); }

static void nothing_is_early(void) {
    struct event later = {.answers = AE_NOMORE};
    create(&later, 3600 * 1000);
    call_in_time(pass);
    call_in_time(sleep_and_pass);
    aeDeleteTimeEvent(loop, later.id);
    expect(later.finals == 0, "an event is not finalized by who deletes it");
    pass();
    expect(later.calls == 0, "what is not due is not called, nor what is deleted");
    expect(later.finals == 1, "what is deleted is finalized by the next pass, once");
}

static void no_more_is_the_end(void) {
    struct event a = {.answers = AE_NOMORE};
    create(&a, 0);
    expect(pass() == 1 && a.calls == 1,
           "an event without delay is called by the next pass, which counts it");
    expect(a.finals == 0, "it is finalized after the pass that ended it");
    expect(aeDeleteTimeEvent(loop, a.id) == AE_ERR, "an event that has ended cannot be deleted");
    expect(pass() == 0 && a.calls == 1 && a.finals == 1, "AE_NOMORE is the end of an event");
}

static void once_in_a_pass(void) {
    struct event child = {.answers = AE_NOMORE}, a = {.answers = 0, .creates = &child};
    create(&a, 0);
    pass();
    expect(a.calls == 1, "an event that goes on at once is called once in a pass");
    expect(child.calls == 0, "an event made by a callback is not called in the same pass");
    a.creates = NULL;
    pass();
    expect(a.calls == 2 && child.calls == 1, "but by the next one");
    aeDeleteTimeEvent(loop, a.id);
    pass();
}

static void an_event_may_delete(void) {
    struct event self = {.answers = 10};
    self.deletes[0] = &self.id;
    create(&self, 0);
    pass();
    expect(self.finals_when_called == 0, "an event that deletes itself is there until it returns");
    pass();
    expect(self.calls == 1 && self.finals == 1, "and then it is not called again");

    struct event a = {.answers = AE_NOMORE}, b = {.answers = AE_NOMORE};
    a.deletes[0] = &b.id;
    b.deletes[0] = &a.id;
    create(&a, 0);
    create(&b, 0);
    pass();
    expect(a.calls + b.calls == 1,
           "an event deleted by one that is called before it is not called");
    pass();
    expect(a.finals == 1 && b.finals == 1, "both are finalized, once");
}

static void deleting_says_whether(void) {
    struct event a = {.answers = AE_NOMORE};
    expect(aeDeleteTimeEvent(loop, 1LL << 40) == AE_ERR, "an id that never was cannot be deleted");
    create(&a, 1000);
    expect(aeDeleteTimeEvent(loop, a.id) == AE_OK, "an event can be deleted");
    expect(aeDeleteTimeEvent(loop, a.id) == AE_ERR, "once");
    pass();
}

static void a_callback_may_run_the_loop(void) {
    struct event outer = {.answers = AE_NOMORE, .runs_the_loop = true},
                 other = {.answers = AE_NOMORE};
    outer.deletes[0] = &outer.id;
    create(&outer, 0);
    create(&other, 0);
    pass();
    expect(outer.finals_when_called == 0,
           "an event whose callback runs the loop is there until it returns");
    pass();
    expect(outer.calls == 1 && outer.finals == 1,
           "an event is called and finalized once, nested or not");
    expect(other.calls == 1 && other.finals == 1, "so is one that is due in a nested loop");
}

static void a_loop_takes_its_events_along(void) {
    static struct event kept = {.answers = 1000}, deleted = {.answers = 0};
    for (int i = 0; i < 1000; i++) create(&kept, i);
    create(&deleted, 1000);
    aeDeleteTimeEvent(loop, deleted.id);
    pass();
    create(&deleted, 0);
    aeDeleteTimeEvent(loop, deleted.id);
    aeDeleteEventLoop(loop); /* valgrind says whether it frees them */
}

int main(void) {
    monotonicInit();
    loop = aeCreateEventLoop(16);
    ids_are_counted();
    nothing_is_early();
    no_more_is_the_end();
    once_in_a_pass();
    an_event_may_delete();
    deleting_says_whether();
    a_callback_may_run_the_loop();
    a_loop_takes_its_events_along();
    return failures != 0;
}
