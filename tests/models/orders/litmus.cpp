// Does the explorer know the memory model? Each of these has an outcome that RC11 allows or
// forbids.
#include "atomic.hpp"

namespace orders {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

struct variables {
    atomic<word> x{0}, y{0};
    word r[4] = {9, 9, 9, 9};
    int plain = 0;
};
using body = void (*)(variables&);

template <std::memory_order Store> void sends(variables& v) {
    v.plain = 1;
    v.x.store(1, relaxed);
    v.y.store(1, Store);
}
void receives(variables& v) {
    v.r[0] = v.y.load(acquire);
    v.r[1] = v.x.load(relaxed);
}
void changes(variables& v) { v.y.fetch_or(2, relaxed); }
void sends_and_stores(variables& v) {
    sends<release>(v);
    v.y.store(3, relaxed);
}
bool is_old(const variables& v) { return v.r[0] != 0 && v.r[1] == 0; }
void takes_plain(variables& v) {
    if (v.y.load(acquire) != 0) v.plain = 2;
}
bool never(const variables&) { return false; }

// Each writes one and reads the other.
template <int I> void stores_first(variables& v) {
    (I ? v.y : v.x).store(1, release);
    v.r[I] = (I ? v.x : v.y).load(acquire);
}
template <int I> void loads_first(variables& v) {
    v.r[I] = (I ? v.x : v.y).load(relaxed);
    (I ? v.y : v.x).store(1, relaxed);
}
template <int I> void adds(variables& v) { v.r[I] = v.x.fetch_add(1, relaxed); }

void writes_twice(variables& v) {
    v.x.store(1, relaxed);
    v.x.store(2, relaxed);
}
void reads_twice(variables& v) {
    v.r[0] = v.x.load(relaxed);
    v.r[1] = v.x.load(relaxed);
}

template <int I> void writes(variables& v) { (I ? v.y : v.x).store(1, release); }
template <int I> void reads_both(variables& v) {
    v.r[2 * I] = (I ? v.y : v.x).load(acquire);
    v.r[2 * I + 1] = (I ? v.x : v.y).load(acquire);
}
bool in_two_orders(const variables& v) {
    return v.r[0] == 1 && v.r[1] == 0 && v.r[2] == 1 && v.r[3] == 0;
}

// The modification orders of both end with 1, against the order of each thread.
template <int I> void writes_both(variables& v) {
    (I ? v.y : v.x).store(2, relaxed);
    (I ? v.x : v.y).store(1, relaxed);
}
template <int I> void watches(variables& v) {
    const word first = (I ? v.y : v.x).load(relaxed), then = (I ? v.y : v.x).load(relaxed);
    v.r[I] = first == 1 && then == 2;
}

bool both_zero(const variables& v) { return v.r[0] + v.r[1] == 0; }
bool both_one(const variables& v) { return v.r[0] + v.r[1] == 2; }
bool equal(const variables& v) { return v.r[0] == v.r[1]; }
bool backwards(const variables& v) { return v.r[0] == 2 && v.r[1] == 1; }
bool is_changed_and_old(const variables& v) { return v.r[0] == 3 && v.r[1] == 0; }

template <bool (*IsSeen)(const variables&), body... Threads> void test() {
    variables& v = *new variables;
    (add_thread("thread", [&v] { Threads(v); }), ...);
    in_the_end([&v] { expect(!IsSeen(v), "it is seen"); });
}

}  // namespace

std::vector<named_program> litmus_tests() {
    constexpr int all = -1;
    constexpr bool seen = true;
    return {
        {"store buffering", test<both_zero, stores_first<0>, stores_first<1>>, all, seen},
        {"load buffering", test<both_one, loads_first<0>, loads_first<1>>},
        {"message passing", test<is_old, sends<release>, receives>},
        {"message passing, relaxed", test<is_old, sends<relaxed>, receives>, all, seen},
        {"a plain message", test<never, sends<release>, takes_plain>},
        {"a plain message, relaxed", test<never, sends<relaxed>, takes_plain>, all, seen},
        {"a release sequence", test<is_changed_and_old, sends<release>, changes, receives>},
        {"a store ends it", test<is_changed_and_old, sends_and_stores, receives>, all, seen},
        {"coherence of reads", test<backwards, writes_twice, reads_twice>},
        {"exchanges are atomic", test<equal, adds<0>, adds<1>>},
        {"reads of two writes in two orders",
         test<in_two_orders, writes<0>, writes<1>, reads_both<0>, reads_both<1>>, all, seen},
        {"two writes by each of two",
         test<both_one, writes_both<0>, writes_both<1>, watches<0>, watches<1>>, all, seen},
    };
}

}  // namespace orders
