// The memory model of C++20 without its cycles of program order and reads (RC11): a load reads any
// write that is not older than what its thread knows of. There are no fences, and no operation that
// is sequentially consistent.
#include "model.hpp"

namespace orders {

namespace {

bool acquires(std::memory_order o) {
    return o == std::memory_order_acquire || o == std::memory_order_acq_rel;
}
bool releases(std::memory_order o) {
    return o == std::memory_order_release || o == std::memory_order_acq_rel;
}

thread& self_thread() { return run.threads[run.running]; }

// The order to explore: that of the source, unless it is to be weakened.
std::memory_order now(std::memory_order o, act how, at where, bool on_failure = false) {
    for (const weaker& w : chosen.weakened)
        if (w.line == where.line && w.how == how && w.on_failure == on_failure &&
            std::string(where.file).ends_with(w.file))
            return w.order;
    return o;
}

word id_of(const write* w) { return w ? word{w->thread} << 16 | w->number : ~word{0}; }

place& use(unsigned id) {
    place& p = run.places[id];
    if (run.running != 0 && p.is_over) fail("an atomic is used after its end");
    p.used[run.running] = self_thread().now.steps[run.running];
    return p;
}

void join(view& to, const view& from) {
    for (unsigned i = 0; i < run.place_count; ++i)
        if (from.oldest[i]->position > to.oldest[i]->position) to.oldest[i] = from.oldest[i];
    for (unsigned i = 0; i <= run.thread_count; ++i)
        to.steps[i] = std::max(to.steps[i], from.steps[i]);
}

void learn(unsigned id, write* w, std::memory_order o) {
    view& v = self_thread().now;
    if (v.oldest[id]->position < w->position) v.oldest[id] = w;
    if (acquires(o) && w->carries) join(v, w->carried);
}

// Whether the next write in modification order may be a new one.
bool may_be_followed(const place& p, const write* w) {
    return w->position + 1u == p.count || !p.order[w->position + 1]->is_exchange;
}

write* insert(unsigned id, unsigned position, word value, bool is_exchange, at where) {
    place& p = run.places[id];
    if (run.write_count == most_writes || p.count == p.order.size()) fail("too many writes");
    write* const w = &run.writes[run.write_count++];
    w->value = value;
    w->thread = static_cast<std::uint16_t>(run.running);
    w->number = self_thread().number;
    w->is_exchange = is_exchange;
    w->carries = false;
    w->where = where;
    write* const before = position != 0 ? p.order[position - 1] : nullptr;
    write* const after = position < p.count ? p.order[position] : nullptr;
    if (after) run.graph ^= mix(mix(id_of(before), id_of(after)), id + 1);
    if (after) run.graph ^= mix(mix(id_of(w), id_of(after)), id + 1);
    run.graph ^= mix(mix(id_of(before), id_of(w)), id + 1);
    for (unsigned i = p.count++; i > position; --i) {
        p.order[i] = p.order[i - 1];
        p.order[i]->position = static_cast<std::uint16_t>(i);
    }
    p.order[position] = w;
    w->position = static_cast<std::uint16_t>(position);
    return w;
}

// Publishes what the thread knows, and what the write knows that is continued.
void publish(unsigned id, write* w, std::memory_order o, const write* continued) {
    view& v = self_thread().now;
    v.oldest[id] = w;
    const bool continues = continued && continued->carries;
    w->carries = releases(o) || continues;
    if (releases(o)) w->carried = v;
    if (!continues) return;
    if (releases(o)) return join(w->carried, continued->carried);
    w->carried = continued->carried;
    w->carried.oldest[id] = w;
}

void end_step(step s, word effect) {
    thread& t = self_thread();
    s.thread = run.running;
    if (run.step_count == most_steps) fail("too many steps: does the program end?");
    run.steps[run.step_count++] = s;
    run.graph ^= mix(mix(word{run.running} << 32 | t.number++, effect), 77);
    ++t.now.steps[run.running];
}

const write* newest(const place& p) { return p.order[p.count - 1]; }

// The position of the oldest write that the thread may read.
unsigned oldest(const place& p, unsigned id) {
    return chosen.sequential ? p.count - 1 : self_thread().now.oldest[id]->position;
}

write* read_any(unsigned id, place& p) {
    return p.order[p.count - 1 - choose(p.count - oldest(p, id))];
}

word result(act how, word before, word with) {
    switch (how) {
    case act::fetch_and:
        return before & with;
    case act::fetch_or:
        return before | with;
    case act::fetch_add:
        return before + with;
    default:
        return with;
    }
}

word exchange(unsigned id, write* from, act how, word value, std::memory_order o, at where) {
    const write* const last = newest(run.places[id]);
    const word before = from->value;
    learn(id, from, o);
    write* const w = insert(id, from->position + 1u, value, true, where);
    publish(id, w, o, from);
    end_step({0, how, false, where, from, last, w}, mix(id_of(from), 5));
    return before;
}

}  // namespace

word self() { return run.running != 0 ? run.running : run.set_up_as; }

unsigned make(word value) {
    const in_explorer here;
    const unsigned id = run.place_count++;
    if (id == most_places) fail("too many atomics");
    place& p = run.places[id];
    p = {};
    write* const w = &run.writes[run.write_count++];
    *w = {value, 0, static_cast<std::uint16_t>(1000 + id), 0, false, false, {}, {}};
    p.order[p.count++] = w;
    for (thread& t : run.threads) t.now.oldest[id] = w;
    for (unsigned i = 0; i + 1 < run.write_count; ++i) run.writes[i].carried.oldest[id] = w;
    return id;
}

void end(unsigned id) {
    const in_explorer here;
    place& p = run.places[id];
    for (unsigned i = 1; i <= run.thread_count && run.running != 0; ++i)
        if (i != run.running && p.used[i] > self_thread().now.steps[i])
            fail("an atomic ends while another thread may use it");
    p.is_over = true;
}

word load(unsigned id, std::memory_order order, at where) {
    const in_explorer here;
    let_others_run();
    place& p = use(id);
    write* const from = read_any(id, p);
    learn(id, from, now(order, act::load, where));
    end_step({0, act::load, false, where, from, newest(p), nullptr}, id_of(from));
    return from->value;
}

void store(unsigned id, word value, std::memory_order order, at where) {
    const in_explorer here;
    let_others_run();
    place& p = use(id);
    std::array<unsigned, 128> positions{p.count};
    unsigned n = 1;
    for (unsigned i = p.count - 1; i > oldest(p, id); --i)
        if (!p.order[i]->is_exchange) positions[n++] = i;
    const write* const last = newest(p);
    write* const w = insert(id, positions[choose(n)], value, false, where);
    publish(id, w, now(order, act::store, where), nullptr);
    end_step({0, act::store, false, where, nullptr, last, w}, 1);
}

word modify(unsigned id, act how, word with, std::memory_order order, at where) {
    const in_explorer here;
    if (how == act::take) {
        self_thread().how = sleeps::until_not_zero;
        self_thread().on = id;
    }
    let_others_run();
    place& p = use(id);
    std::array<write*, 128> from;
    unsigned n = 0;
    for (unsigned i = p.count; i-- > oldest(p, id);)
        if (may_be_followed(p, p.order[i])) from[n++] = p.order[i];
    write* const w = from[how == act::take ? 0 : choose(n)];
    return exchange(id, w, how, result(how, w->value, with), now(order, how, where), where);
}

// It fails where it reads another value, and not by chance.
bool compare(unsigned id, word& expected, word wanted, std::memory_order success,
             std::memory_order failure, at where) {
    const in_explorer here;
    let_others_run();
    place& p = use(id);
    std::array<write*, 128> from;
    unsigned n = 0;
    for (unsigned i = p.count; i-- > oldest(p, id);)
        if (p.order[i]->value != expected || may_be_followed(p, p.order[i])) from[n++] = p.order[i];
    write* const w = from[choose(n)];
    if (w->value == expected) {
        exchange(id, w, act::compare, wanted, now(success, act::compare, where), where);
        return true;
    }
    learn(id, w, now(failure, act::compare, where, true));
    end_step({0, act::compare, true, where, w, newest(p), nullptr}, mix(id_of(w), 6));
    expected = w->value;
    return false;
}

void wait(unsigned id, word old, std::memory_order order, at where) {
    const in_explorer here;
    thread& t = self_thread();
    for (;;) {
        let_others_run();
        place& p = use(id);
        write* const from = read_any(id, p);
        learn(id, from, now(order, act::wait, where));
        end_step({0, act::wait, false, where, from, newest(p), nullptr}, id_of(from));
        if (from->value != old) return;
        t.how = sleeps::until_notified;
        t.on = id;
        t.has_read = from;
        let_others_run();
        // Who was woken reads what the notification knew, but acquires nothing.
        if (p.notified->position > t.now.oldest[id]->position) t.now.oldest[id] = p.notified;
    }
}

// Wakes those that have read an older write than it knows.
void notify_all(unsigned id, at where) {
    const in_explorer here;
    let_others_run();
    place& p = use(id);
    write* const known = self_thread().now.oldest[id];
    if (!p.notified || known->position > p.notified->position) p.notified = known;
    end_step({0, act::notify, false, where, nullptr, nullptr, nullptr}, 9);
}

}  // namespace orders
