// The demo's two wheels, tvec's and the kernel's until 4.7, under the same load: timers that are
// pushed back, and that are armed again when they fire. A page in a browser calls the functions
// below and reads their arrays; main() of the host prints the same figures, by which the test
// compares.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "structures/classic_wheel.hpp"
#include "tvec/core/call.hpp"
#include "tvec/inspect/detail/census_taker.hpp"

namespace {

constexpr unsigned most_timers = 100'000;
constexpr unsigned most_ticks = 4096;  // of a call of run()
constexpr unsigned shown = 1000;       // timers whose places are told
constexpr std::uint64_t start = 1'000'000;

// The classic wheel, which does not count: before a tick its lists are counted that will cascade.
class classic : public bench::classic_wheel {
public:
    classic() : classic_wheel(start + 1) {}

    std::uint32_t cascading() const {
        std::uint32_t n = 0;
        if ((jiffies_ & (root_size - 1)) != 0) return n;
        for (unsigned level = 0; level < 4; ++level) {
            for_each_in(levels_[level][index(level)], [&n](const bench::classic_timer&) { ++n; });
            if (index(level) != 0) break;
        }
        return n;
    }

    // Calls visit(level, slot, timer) for each timer.
    template <class F> void for_each(F visit) const {
        for (unsigned s = 0; s < root_size; ++s)
            for_each_in(root_[s], [&](const bench::classic_timer& t) { visit(0u, s, t); });
        for (unsigned level = 0; level < 4; ++level)
            for (unsigned s = 0; s < level_size; ++s)
                for_each_in(levels_[level][s],
                            [&](const bench::classic_timer& t) { visit(level + 1, s, t); });
    }

private:
    template <class F> static void for_each_in(const bench::classic_link& head, F f) {
        for (const auto* l = head.next; l != &head; l = l->next)
            f(static_cast<const bench::classic_timer&>(*l));
    }
};

// Two timers for one deadline, the classic one as a base.
struct connection : bench::classic_timer {
    connection() : classic_timer(on_classic) {}
    void on_idle();
    static void on_classic(bench::classic_timer& t);

    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

struct world {
    tvec::timer_wheel wheel{start};
    classic as_it_was;
    std::array<connection, most_timers> connections;
    unsigned timers = 0, delay = 1;
    std::uint32_t fired = 0, fired_as_it_was = 0;
    std::uint32_t seed = 7;
};

// Never destroyed: at the end of the program nothing is left to be called.
alignas(64) unsigned char memory[sizeof(world)];
world* w = nullptr;

std::uint32_t visits_of[2][most_ticks];
std::uint32_t places_of[2][shown];

std::uint32_t random(std::uint32_t below) {
    w->seed ^= w->seed << 13, w->seed ^= w->seed >> 17, w->seed ^= w->seed << 5;
    return static_cast<std::uint32_t>(std::uint64_t{w->seed} * below >> 32);
}

// The same deadline for both timers of a connection: between half the delay and all of it.
void arm(connection& c, std::uint64_t now) {
    const std::uint64_t at = now + 1 + w->delay / 2 + random(w->delay / 2 + 1);
    w->wheel.arm_at(c.idle, at);
    w->as_it_was.arm_at(c, at);
}

// The kernel's timer is armed when the other one fires, a moment later.
void connection::on_idle() { ++w->fired; }
void connection::on_classic(bench::classic_timer& t) {
    ++w->fired_as_it_was;
    arm(static_cast<connection&>(t), w->wheel.now());
}

std::uint64_t visited() {
    const auto& n = w->wheel.count();
    return n.fired + n.moved + n.dropped;
}

void run_tick(unsigned i, unsigned pushes) {
    for (unsigned p = 0; p < pushes && w->timers != 0; ++p)
        arm(w->connections[random(w->timers)], w->wheel.now());
    const std::uint64_t before = visited(), now = w->wheel.now() + 1;
    w->wheel.advance(now);
    visits_of[0][i] = static_cast<std::uint32_t>(visited() - before);
    const std::uint32_t fired = w->fired_as_it_was, cascaded = w->as_it_was.cascading();
    w->as_it_was.advance(now);
    visits_of[1][i] = cascaded + (w->fired_as_it_was - fired);
}

// Notes the place of one of the first connections.
void note(unsigned wheel, const connection& c, unsigned level, unsigned slot) {
    const auto number = static_cast<std::size_t>(&c - w->connections.data());
    if (number < shown) places_of[wheel][number] = level << 16 | slot;
}

}  // namespace

#ifdef __wasm__
#define EXPORTED(name) __attribute__((export_name(name)))
#else
#define EXPORTED(name)
#endif

extern "C" {

// Runs so many ticks, with `pushes` push-backs in each. At most 4096.
EXPORTED("run") void run(unsigned ticks, unsigned pushes) {
    for (unsigned i = 0; i < ticks && i < most_ticks; ++i) run_tick(i, pushes);
}

// Begins with so many timers, armed for up to `delay` ticks, and runs until the first are due.
EXPORTED("begin") void begin(unsigned timers, unsigned delay, unsigned pushes) {
    w = new (memory) world;
    w->delay = delay < 2 ? 2 : delay;
    w->timers = timers < most_timers ? timers : most_timers;
    for (unsigned i = 0; i < w->timers; ++i) arm(w->connections[i], start);
    for (unsigned left = delay < 200'000 ? delay : 200'000; left != 0; --left) run(1, pushes);
}

// What each tick of the last run() has visited.
EXPORTED("visits") const std::uint32_t* visits(unsigned wheel) { return visits_of[wheel]; }

// Where the first timers hang: a level from bit 16 on and a slot below it, or all ones.
EXPORTED("places") const std::uint32_t* places(unsigned wheel) {
    namespace geometry = tvec::detail::geometry;
    for (std::uint32_t& p : places_of[wheel]) p = ~0u;
    if (wheel == 0)
        tvec::detail::census_taker(w->wheel).for_each_linked([](unsigned s, const tvec::timer& t) {
            const unsigned level = geometry::level_with(s);
            note(0, tvec::owner_of<&connection::idle>(const_cast<tvec::timer&>(t)), level,
                 s - geometry::first_slot_of(level));
        });
    else
        w->as_it_was.for_each([](unsigned level, unsigned s, const bench::classic_timer& t) {
            note(1, static_cast<const connection&>(t), level, s);
        });
    return places_of[wheel];
}

EXPORTED("now") double now() { return static_cast<double>(w->wheel.now() - start); }
EXPORTED("fired") unsigned fired(unsigned wheel) {
    return wheel == 0 ? w->fired : w->fired_as_it_was;
}
}

#ifndef __wasm__
// usage: demo TIMERS DELAY PUSHES TICKS
int main(int, char** argv) {
    const auto number = [&](int i) {
        return static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10));
    };
    begin(number(1), number(2), number(3));
    std::uint32_t worst[2] = {}, all[2] = {};
    for (unsigned left = number(4); left != 0; --left) {
        run(1, number(3));
        for (unsigned i : {0u, 1u}) {
            worst[i] = std::max(worst[i], *visits(i));
            all[i] += *visits(i);
        }
    }
    std::printf("%u %u %u %u\n", worst[0], all[0], worst[1], all[1]);
}
#endif
