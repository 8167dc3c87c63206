// Threads on one mailbox: the real src/mailbox/mailbox_core.cpp, on the explorer's atomics.
#include <optional>

#include "mailbox_world.hpp"

namespace orders {

namespace {

using handle = tvec::mailbox_handle;
using doing = void (*)(world&, hand_over&);

// The owner serves `Functions`, and the others do what is given.
template <int Capacity, int Functions, doing... Others> void beside_a_loop() {
    world& w = *new world(Capacity);
    hand_over& h = *new hand_over;
    add_thread("owner", [&w] { w.loop(Functions); });
    const char* const names[] = {"sender", "other"};
    int i = 0;
    (add_thread(names[i++], [&w, &h] { Others(w, h); }), ...);
    in_the_end([&w] { w.require_that_all_ended(); });
}

// The owner makes a turn, and stops. The last of all threads destroys the mailbox.
template <bool Runs, doing... Others> void beside_a_stop() {
    world& w = *new world(1);
    hand_over& h = *new hand_over;
    w.holders.fetch_add(sizeof...(Others) - 1, std::memory_order_relaxed);
    add_thread("owner", [&w] {
        w.turn();
        w.stop(Runs);
        w.let_go();
    });
    const char* const names[] = {"sender", "other"};
    int i = 0;
    (add_thread(names[i++],
                [&w, &h] {
                    Others(w, h);
                    w.let_go();
                }),
     ...);
    in_the_end([&w] { w.require_that_all_ended(true, !Runs); });
}

// --- threads ------------------------------------------------------------------------------------

template <int Id, tvec::jiffies Due = 0> void sends(world& w, hand_over&) { w.send(Id, Due); }
template <tvec::jiffies Due> void sends_and_tells(world& w, hand_over& h) {
    h.give(w.send(0, Due).handle);
}
void sends_two(world& w, hand_over&) {
    w.send(0, 0);
    w.send(1, 0);
    in_the_end([&w] {
        w.require_that_all_ended();
        expect(w.calls < 2 || w.order[0] == 0, "posts of a thread change their order");
    });
}
void sends_after_hearing(world& w, hand_over& h) {
    h.take();
    w.send(1, 0);
    in_the_end([&w] {
        w.require_that_all_ended();
        expect(w.calls < 2 || w.order[0] == 0, "a post is called before the one it followed");
    });
}
void tells_and_sends(world& w, hand_over& h) {
    sends_and_tells<0>(w, h);
    w.send(1, 0);
}
void sends_and_cancels(world& w, hand_over&) { w.cancel(0, w.send(0, 1).handle); }
void tells_and_cancels(world& w, hand_over& h) {
    const handle mine = w.send(0, 1).handle;
    h.give(mine);
    if (w.core.cancel(mine, w.core.bell())) ++w.all[0].cancelled;
}
template <int Id> void cancels(world& w, hand_over& h) {
    const handle other = h.take();
    if (w.core.cancel(other, w.core.bell())) ++w.all[Id].cancelled;
}
void sends_to_be_told(world& w, hand_over& h) {
    w.is_told = true;
    sends_and_tells<1>(w, h);
}
void writes_and_cancels(world& w, hand_over& h) {
    const handle other = h.take();
    w.told = 7;
    w.cancel(0, other);
}
template <tvec::jiffies Due> void sends_and_waits(world& w, hand_over&) {
    w.all[0].cancelled += w.cancel_and_wait(0, w.send(0, Due).handle);
}
void waits_only(world& w, handle h) {
    if (w.core.cancel_and_wait(h, w.core.bell())) ++w.all[0].cancelled;
    expect(w.all[0].destroyed == 1, "a wait ends before the function");
}
void waits(world& w, hand_over& h) {
    if (w.cancel_and_wait(0, h.take())) ++w.all[0].cancelled;
}
// Two wait, so neither changes what the function refers to.
void tells_and_waits(world& w, hand_over& h) {
    const handle mine = w.send(0, 0).handle;
    h.give(mine);
    waits_only(w, mine);
}
void also_waits(world& w, hand_over& h) { waits_only(w, h.take()); }
template <tvec::jiffies Due, tvec::jiffies Then> void sends_and_moves(world& w, hand_over&) {
    w.reschedule(0, w.send(0, Due).handle, Then);
}
void moves_and_tells(world& w, hand_over& h) {
    const handle mine = w.send(0, 1).handle;
    w.reschedule(0, mine, 2);
    h.give(mine);
}
void tells_and_moves(world& w, hand_over& h) {
    const handle mine = w.send(0, 1).handle;
    h.give(mine);
    w.reschedule(0, mine, 3, false);
}
template <bool IsLast> void moves(world& w, hand_over& h) { w.reschedule(0, h.take(), 4, IsLast); }
void moves_and_waits(world& w, hand_over& h) {
    const handle other = h.take();
    w.reschedule(0, other, 3, false);
    w.all[0].cancelled += w.cancel_and_wait(0, other);
}

// --- special ones -------------------------------------------------------------------------------

using reservation = std::optional<tvec::detail::mailbox_reservation>;

// Takes a cell, if there is one, and writes to it.
void reserve(world& w, reservation& r, int mark) {
    r.emplace(w.core, true);
    if (r->error() != tvec::send_error::none) return;
    int& holder = w.order[&r->cell() - w.core.cells_.get()];
    expect(holder == 0, "a cell has two holders");
    holder = mark;
}
void give_back(world& w, reservation& r, int mark) {
    if (r->error() == tvec::send_error::none) {
        int& holder = w.order[&r->cell() - w.core.cells_.get()];
        expect(holder == mark, "a cell has two holders");
        holder = 0;
    }
    r.reset();
}

// The second thread gives back its first cell while it has another.
void two_reserve() {
    world& w = *new world(2);
    call_it(w.order, sizeof w.order, "the mark of a cell's holder");
    add_thread("one", [&w] {
        reservation a;
        reserve(w, a, 1);
        give_back(w, a, 1);
    });
    add_thread("other", [&w] {
        reservation a, b, c;
        reserve(w, a, 2);
        reserve(w, b, 3);
        give_back(w, a, 2);
        reserve(w, c, 4);
        give_back(w, c, 4);
        give_back(w, b, 3);
    });
    in_the_end([&w] {
        reservation a, b;
        reserve(w, a, 5);
        reserve(w, b, 6);
        expect(b->error() == tvec::send_error::none, "a cell is lost");
    });
}

// One gives back the first cell before it takes the second, so that one of them is vacant at each
// moment. The other looks at the first, and then at the second.
void vacancy_moves() {
    world& w = *new world(2);
    auto& vacancies = w.core.vacancies_;
    const auto take = [&vacancies](int lane) {
        tvec::detail::mailbox_cell* const c = vacancies.take(vacancies.lanes_[lane]);
        expect(c != nullptr, "refused beside a vacant cell");
        return c;
    };
    tvec::detail::mailbox_cell* const first = take(0);
    add_thread("one", [&vacancies, first, take] {
        vacancies.give_back(*first);
        take(15);
    });
    add_thread("other", [take] { take(0); });
}

// The thread that has made the mailbox lets another run the loop. It is the owner until that has
// begun: then it need not wait if its cancel wins, since the function is not called.
template <bool Stops> void maker_waits() {
    set_up_as(2);
    world& w = *new world(1);
    add_thread("owner", [&w] { Stops ? w.stop(true) : w.loop(1); });
    add_thread("maker", [&w] {
        const handle mine = w.send(0, 0).handle;
        w.all[0].cancelled += w.core.cancel_and_wait(mine, w.core.bell());
        if (!mine || w.all[0].cancelled != 0) return;
        expect(w.all[0].destroyed == 1, "a wait ends before the function");
        w.all[0].message = 0;
    });
    in_the_end([&w] {
        if (!Stops) w.require_that_all_ended();
    });
}

// A thread makes a turn, and gives the loop to another.
void owners_in_turn() {
    world& w = *new world(1);
    hand_over& h = *new hand_over;
    w.last_owner = 2;
    add_thread("first", [&w, &h] {
        w.turn();
        w.core.rearm();
        h.give({});
    });
    add_thread("owner", [&w, &h] {
        h.take();
        w.loop(1);
    });
    add_thread("sender", [&w, &h] { sends_and_waits<1>(w, h); });
    in_the_end([&w] { w.require_that_all_ended(); });
}

// Nobody stops again after a visitor that throws.
void last_holder_destroys() {
    world& w = *new world(1);
    add_thread("owner", [&w] {
        w.turn();
        w.core.stop();
        w.let_go();
    });
    add_thread("sender", [&w] {
        w.send(0, 0);
        w.let_go();
    });
    in_the_end([&w] { w.require_that_all_ended(true, true); });
}

}  // namespace

std::vector<named_program> mailbox_programs() {
    return {
        {"a post is called once", beside_a_loop<1, 1, sends<0>>},
        {"posts of a thread keep their order", beside_a_loop<2, 2, sends_two>},
        {"a cell is used again", beside_a_loop<1, 2, sends_two>},
        {"posts of two threads are called", beside_a_loop<2, 2, sends<0>, sends<1>>, 2},
        {"two threads share a cell", beside_a_loop<1, 2, sends<0>, sends<1>>, 2},
        {"a post comes after the one it followed",
         beside_a_loop<2, 2, sends_and_tells<0>, sends_after_hearing>, 2},
        {"a cell has one holder", two_reserve},
        {"a vacancy that moves is found", vacancy_moves},
        {"a cancel decides", beside_a_loop<1, 1, sends_and_cancels>},
        {"one of two cancels wins", beside_a_loop<1, 1, tells_and_cancels, cancels<0>>, 2},
        {"a destructor reads what the canceller wrote",
         beside_a_loop<1, 1, sends_to_be_told, writes_and_cancels>, 2},
        {"nothing is early after a reschedule", beside_a_loop<1, 1, sends_and_moves<1, 3>>},
        {"a post that is rescheduled is not early", beside_a_loop<1, 1, sends_and_moves<0, 2>>},
        {"the later of two reschedules counts", beside_a_loop<1, 1, moves_and_tells, moves<true>>,
         2},
        {"two may reschedule at once", beside_a_loop<1, 1, tells_and_moves, moves<false>>, 1},
        {"a reschedule beside a cancel", beside_a_loop<1, 1, tells_and_moves, cancels<0>>, 1},
        {"a wait ends after a posted function", beside_a_loop<1, 1, sends_and_waits<0>>},
        {"a wait ends after a scheduled function", beside_a_loop<1, 1, sends_and_waits<1>>, 2},
        {"a wait for another's function", beside_a_loop<1, 1, sends_and_tells<1>, waits>, 2},
        {"a wait for a cell that is used again", beside_a_loop<1, 2, tells_and_sends, waits>, 1},
        {"two wait for a function", beside_a_loop<1, 1, tells_and_waits, also_waits>, 1},
        {"the maker waits for the thread of the loop", maker_waits<false>, 2},
        {"the maker waits for the thread that stops", maker_waits<true>},
        {"owners in turn", owners_in_turn, 2},
        {"stop shows what was sent", beside_a_stop<true, sends<0>>},
        {"stop drops what was sent", beside_a_stop<false, sends<0>>},
        {"stop beside a cancel", beside_a_stop<true, sends_and_cancels>},
        {"stop beside a reschedule", beside_a_stop<true, sends_and_moves<1, 2>>},
        {"stop ends a wait", beside_a_stop<false, sends_and_waits<1>>},
        {"stop ends a wait for another's function", beside_a_stop<true, sends_and_tells<1>, waits>,
         2},
        {"stop beside a reschedule and a wait",
         beside_a_stop<false, sends_and_tells<1>, moves_and_waits>, 2},
        {"stop: a destructor reads what the canceller wrote",
         beside_a_stop<true, sends_to_be_told, writes_and_cancels>, 2},
        {"the last holder destroys what is left", last_holder_destroys},
    };
}

}  // namespace orders
