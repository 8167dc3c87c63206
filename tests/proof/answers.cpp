// usage: answers SEED
//
// Prints what the library answers to random arguments and to arguments at edges. Each line is the
// name of a function of translation.py, its arguments, a colon and the results.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <random>

#include "support/environment.hpp"
#include "support/private_members.hpp"
#include "tvec/clock/detail/beats.hpp"
#include "tvec/clock/tick_clock.hpp"
#include "tvec/extra/game_clock.hpp"

namespace {

using tvec::jiffies, tvec::never;
using word = std::uint64_t;
using words = std::initializer_list<word>;
namespace detail = tvec::detail;
namespace geometry = tvec::detail::geometry;

std::mt19937_64 random_word;

void print(const char* function, words arguments, words results) {
    std::fputs(function, stdout);
    for (const word w : arguments) std::printf(" %" PRIu64, w);
    std::fputs(" :", stdout);
    for (const word w : results) std::printf(" %" PRIu64, w);
    std::putchar('\n');
}

word below(word end) { return random_word() % end; }

// Returns a word of any length, or one near a power of two or near a sum of two powers.
word any_word() {
    const word one = 1;
    switch (below(4)) {
    case 0:
        return random_word() >> below(64);
    case 1:
        return (one << below(64)) + below(5) - 2;
    case 2:
        return (one << below(64)) + (one << below(64)) + below(5) - 2;
    default:
        return below(300);
    }
}
jiffies any_tick() { return any_word() % never; }

void tell_the_shape() {
    print("shape", {},
          {geometry::root_bits, geometry::level_bits, geometry::levels, geometry::level_1_laps,
           geometry::chunk, geometry::chains_per_slot});
    for (unsigned level = 0; level <= geometry::overflow; ++level)
        print(
            "level", {level},
            {geometry::shift_of(level), geometry::ring_of(level), geometry::first_slot_of(level),
             geometry::level_with(geometry::first_slot_of(level)),
             geometry::level_with(geometry::first_slot_of(level) + geometry::ring_of(level) - 1)});
    print("ends", {}, {geometry::beyond, geometry::never_slot, geometry::total_slots});
    print("link_words", {},
          {detail::last_wheel_id, detail::address_mask, detail::wheel_number::shared,
           detail::wheel_number::unused});
}

void place() {
    const jiffies now = any_tick(), at = now + below(2) * any_word() % (never - now);
    const unsigned level = geometry::level_for(at, now);
    const bool is_beyond = level == geometry::overflow;
    const unsigned s = geometry::slot_for(at, now);
    const unsigned place = is_beyond ? geometry::overflow_slot_for(at, now) : s;
    const jiffies t = now + below(geometry::visit_of(level, place, now) - now + 1);
    print("place", {at, now, t},
          {geometry::level_of(at - now), level, s, place, geometry::visit_of(level, place, now),
           geometry::visit_of(level, place, t)});
}

void look() {
    const auto level = static_cast<unsigned>(below(geometry::overflow + 1));
    const auto s =
        geometry::first_slot_of(level) + static_cast<unsigned>(below(geometry::ring_of(level)));
    const jiffies t = any_tick(), now = below(2) ? t : geometry::entry_of(level, t);
    print("look", {level, s, now},
          {geometry::lap_at(now), geometry::entry_of(level, now),
           geometry::slot_before(level, geometry::entry_of(level, now)),
           geometry::visit_of(level, s, now)});
}

void empty() {
    const auto level = static_cast<unsigned>(1 + below(geometry::overflow));
    const jiffies width = geometry::width_of(level);
    const jiffies entry = (1 + below((never - 1) / width)) * width;
    const word there = 1 + any_word() % 0xffff'ffff;
    const jiffies now = entry - 1 - any_word() % (below(2) ? width : entry);
    detail::agenda agenda;
    const detail::emptying to = agenda.plan({level, entry}, there);
    agenda.note({level, entry}, there, now);
    print("note", {level, entry, there, now},
          {to.rate, to.gentle, to.start(there, to.rate), to.start(there, to.gentle),
           agenda.above(geometry::root).may, agenda.above(geometry::root).must});
    const jiffies late = entry - 1 - any_word() % width;
    const word left = any_word() % (there + 1);
    print("due", {entry, to.rate, to.gentle, left, late}, {to.due(left, late)});
}

void repeat() {
    using tvec::missed_periods;
    const jiffies due = any_word() % (never + 1), reached = any_word() % (never + 1);
    const word period = any_word() | 1;
    const auto next = [&](missed_periods policy) {
        return detail::beat_after(due, period, policy, reached);
    };
    const detail::beat burst = next(missed_periods::burst), delay = next(missed_periods::delay),
                       skip = next(missed_periods::skip);
    const detail::beginning begin = detail::begin_at(due, reached, period);
    print("repeat", {due, reached, period},
          {detail::later(due, period), detail::missed_by(reached, due, period), burst.due,
           delay.due, skip.due, burst.missed, delay.missed, skip.missed, begin.first, begin.due,
           detail::begun_before(due + reached, reached, period).due});
}

void convert() {
    const word den = 1 + any_word() % (~word{0} / 2), num = any_word() % (~word{0} / den);
    const word count = any_word(), limit = any_word();
    print("scale", {count, num, den, limit},
          {detail::scale(count, num, den, detail::rounding::down, limit),
           detail::scale(count, num, den, detail::rounding::up, limit)});
}

// Doubles near powers of two, and any that is not negative.
void set_speed() {
    const word bits = below(4) ? ((983 + below(80)) << 52) + any_word() % 4 - below(2) * any_word()
                               : random_word();
    const auto nearest = detail::nearest_fraction(bits & ~word{0} >> 1);
    print("nearest_fraction", {bits & ~word{0} >> 1}, {nearest.numerator, nearest.shift});
}

using clock = tvec::manual_clock;
clock::duration span(word w) { return clock::duration(static_cast<std::int64_t>(w)); }
clock::time_point point(word w) { return clock::time_point(span(w)); }
word word_of(clock::duration d) { return static_cast<word>(d.count()); }
word word_of(clock::time_point t) { return word_of(t.time_since_epoch()); }

void read_clock() {
    const word begin = any_word(), t = any_word(), units = 1 + any_tick(), tick = any_tick();
    const tvec::runtime_tick_clock<clock> ticks(span(units), point(begin));
    const detail::tick_origin<clock> origin(point(begin));
    const word d = any_tick();
    print("read_clock", {begin, t, units, tick, d},
          {origin.until(point(t)), word_of(origin.after(origin.until(point(t)))),
           ticks.floor(point(t)), ticks.ceil(point(t)), ticks.ticks_to_cover(span(t)),
           word_of(ticks.start_of(tick)), word_of(detail::add(point(t), span(d))),
           word_of(detail::time_left(point(begin), point(t)))});
}

template <std::intmax_t Num, std::intmax_t Den> void read_ticks_of() {
    using tick_of = std::chrono::duration<std::int64_t, std::ratio<Num, Den>>;
    using per = std::ratio_divide<clock::period, typename tick_of::period>;
    const word begin = any_word(), t = any_word(), d = any_word(), tick = any_tick();
    const tvec::tick_clock<tick_of, clock> ticks(point(begin));
    using wheel = tvec::clocked_wheel<tvec::tick_clock<tick_of, clock>>;
    clock::set(point(t));
    print("read_ticks", {begin, t, d, tick, per::num, per::den},
          {ticks.floor(point(t)), ticks.ceil(point(t)), ticks.ticks_to_cover(span(d)),
           word_of(ticks.start_of(tick)),
           word_of(wheel::after(tick_of(static_cast<std::int64_t>(d))))});
}

// Ticks of whole units, of a unit, of a part of one, and others.
void read_ticks() {
    read_ticks_of<1, 1'000>();
    read_ticks_of<1, 1'000'000'000>();
    read_ticks_of<1, 1'000'000'000'000>();
    read_ticks_of<1, 60>();
    read_ticks_of<1'234'567, 1'000'000'000>();
    read_ticks_of<3'600, 1>();
}

void hang() {
    const word address = random_word() & detail::address_mask & ~word{7};
    const auto number = static_cast<detail::wheel_id>(below(detail::last_wheel_id) + 1);
    detail::link l;
    l.hang(*reinterpret_cast<detail::link**>(address),
           detail::wheel_tag{number} << detail::wheel_tag_shift);
    print("hang", {address, number},
          {l.back, detail::number_of(l.back), reinterpret_cast<std::uintptr_t>(&l.pointer_here()),
           l.linked_in(number)});
}

// Arms a timer twice. A second timer follows it in its slot: if the first one is linked anew, the
// pointer to it is another.
void arm() {
    using support::of_timer::read;
    const auto tick = [] { return any_tick() % (word{1} << 40); };
    static tvec::timer_wheel wheel(tick()), other;
    const bool is_other = below(4) == 0;
    tvec::timer t, second;
    auto& home = is_other ? other : wheel;
    const jiffies first = wheel.now() + 1 + below(2) * tick();
    if (below(8) != 0) home.arm_at(t, first);
    home.arm_at(second, first);
    if (below(4) == 0) t.cancel();
    const auto back = read<word>(t, support::of_timer::back);
    const auto expires = read<word>(t, support::of_timer::expires);
    const word number = detail::number_of((wheel.*member(support::of_wheel::levels{})).tag());
    const jiffies again = below(4) ? wheel.now() + any_word() % never : first + below(5) - 2;
    wheel.arm_at(t, again);
    print("arm", {wheel.now(), back, expires, number, again},
          {back != 0 && read<word>(t, support::of_timer::back) == back});
}

}  // namespace

int main(int, char** arguments) {
    random_word.seed(std::strtoull(arguments[1], nullptr, 10));
    tell_the_shape();
    for (std::uint64_t i = support::scaled(20'000, 2'000); i > 0; --i)
        for (auto* const f :
             {place, look, empty, repeat, convert, set_speed, read_clock, read_ticks, hang, arm})
            f();
}
