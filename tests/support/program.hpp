// Programs for the differential tests: operations of four bytes each, so that any bytes are a
// program, and so that a mutation changes one of them and leaves the others alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tvec/core/detail/geometry.hpp"

namespace support {

enum class verb : std::uint8_t {
    arm,           // arm_after(subject, distance)
    push_back,     // arm_at(subject, its deadline + distance)
    pull_in,       // arm_at(subject, its deadline - distance)
    arm_within,    // arm_within(subject, distance, and a window as wide as `offset` says)
    arm_next,      // arm_next(subject, distance)
    cancel,        //
    destroy,       // and make another in its place
    move,          // to another address
    move_onto,     // the subject that `offset` names takes this one's place
    advance,       // by a distance
    advance_some,  // the same with a budget of `who` modulo 8
    hop,           // to the next wake-up
    go_back,       // advance to before now()
    drain,         // each timer shown runs its script
    script,        // the next few operations are what the subject does when it fires
    fail,          // in a script: throws
    rebuild,       // destroys the wheel, and makes one that starts elsewhere, now and then with
                   // the number that wheels share when no other is left
    listen,        // another listener for the earlier wake-ups of the wheel, or none
    arm_if_pending,
    arm_if_earlier,
    arm_unless_pending,
    unlink,            // and zero its bytes, and make another in them
    advance_in_order,  // by a distance, with a budget of 1 + `who` modulo 8
    advance_watched,   // by a distance, and ends after 1 + `who` modulo 8 callbacks
    collect,           // by a distance, with a budget of 1 + `who` modulo 8
    sweep,             // a walk whose visitor does anything to any timer, and may end early
    capture,           // the state of the wheel into its snapshot
    move_ahead,        // up to `who` modulo 8 timers
    restore,           // and back, without the timer that `offset` names now and then
};

struct operation {
    std::uint8_t what;
    std::uint8_t who;
    std::uint8_t span;
    std::uint8_t offset;

    // Frequent operations, and those that find much, stand here more often.
    static constexpr std::array<verb, 32> verbs{
        verb::arm,     verb::arm,        verb::arm,       verb::arm,          verb::arm,
        verb::arm,     verb::push_back,  verb::push_back, verb::push_back,    verb::pull_in,
        verb::pull_in, verb::arm_within, verb::arm_next,  verb::cancel,       verb::cancel,
        verb::destroy, verb::move,       verb::move_onto, verb::advance,      verb::advance,
        verb::advance, verb::advance,    verb::advance,   verb::advance_some, verb::advance_some,
        verb::hop,     verb::hop,        verb::go_back,   verb::script,       verb::script,
        verb::fail,    verb::drain,
    };

    verb action() const {
        switch (what) {  // rare things take a value of their own out of the 256
        case 241:
        case 242:
            return verb::listen;
        case 243:
            return verb::move_ahead;
        case 244:
            return verb::capture;
        case 245:
            return verb::restore;
        case 246:
            return verb::collect;
        case 248:
            return verb::advance_in_order;
        case 249:
            return verb::arm_unless_pending;
        case 250:
            return verb::advance_watched;
        case 247:
        case 251:
            return verb::sweep;
        case 252:
            return verb::unlink;
        case 253:
            return verb::arm_if_pending;
        case 254:
            return verb::arm_if_earlier;
        case 255:
            return verb::rebuild;
        default:
            return verbs[what % verbs.size()];
        }
    }
    int subject() const { return who % 32; }
    bool on_self() const { return who & 32; }  // in a script
    bool on_second_wheel() const { return who >= 192; }
    std::size_t budget() const { return who % 8; }
    std::size_t script_length() const { return 1 + offset % 4; }
    bool shares_number() const { return span % 2 != 0; }  // the wheel that is made
};

inline constexpr int subjects = 32;

// A program is a byte that chooses the starting time, and operations.
struct program {
    std::uint8_t start = 0;
    std::vector<operation> operations;

    bool shares_number() const { return start >= 224; }  // of both wheels

    static program from(std::span<const std::uint8_t> bytes) {
        program p;
        if (bytes.empty()) return p;
        p.start = bytes[0];
        p.operations.resize((bytes.size() - 1) / sizeof(operation));
        if (!p.operations.empty())
            std::memcpy(p.operations.data(), &bytes[1], p.operations.size() * sizeof(operation));
        return p;
    }

    // Returns how many bytes it takes; writes no more than there is room for.
    std::size_t to(std::span<std::uint8_t> bytes) const {
        if (bytes.empty()) return 0;
        const std::size_t fit = std::min(operations.size(), (bytes.size() - 1) / sizeof(operation));
        bytes[0] = start;
        if (fit != 0) std::memcpy(&bytes[1], operations.data(), fit * sizeof(operation));
        return 1 + fit * sizeof(operation);
    }
};

// Spans of time, more often at the edges of a wheel than chance would have it:
//   0..63     a power of two, mostly of those that a wheel has edges at, give or take `offset`
//   64..95    `offset` times a power of two
//   96..111   the last one again, give or take a little: many timers on one tick
//   112..127  the longest of a level that lands in the slot that now is in
//   128..191  until the deadline of a subject, give or take
//   192..255  until a slot of some level begins, give or take
class distances {
public:
    // `due` says when a subject was last armed for.
    template <class Due> tvec::jiffies of(const operation& op, tvec::jiffies now, const Due& due) {
        const unsigned kind = op.span / 64;
        const auto jitter = static_cast<std::int8_t>(op.offset);
        if (kind == 0) return give_or_take(tvec::jiffies{1} << power(op.span), jitter);
        if (kind == 2) return until(give_or_take(due(op.span % subjects), jitter), now);
        if (kind == 3) return until(give_or_take(slot_after(now, op.span), jitter), now);
        if (op.span < 96) return last_ = tvec::jiffies{op.offset} << (op.span - 64);
        if (op.span < 112) return give_or_take(last_, jitter / 32);
        return alias(op, now);
    }

private:
    static unsigned power(unsigned span) { return span < 36 || span > 60 ? span : span - 36; }

    static tvec::jiffies give_or_take(tvec::jiffies t, int jitter) {
        const auto by = static_cast<tvec::jiffies>(jitter < 0 ? -jitter : jitter);
        return jitter < 0 ? t - std::min(t, by) : t + by;
    }
    static tvec::jiffies until(tvec::jiffies t, tvec::jiffies now) { return t > now ? t - now : 0; }

    static tvec::jiffies slot_after(tvec::jiffies now, unsigned span) {
        const unsigned level = 1 + span % tvec::detail::geometry::levels;
        return tvec::detail::geometry::entry_of(level, now) +
               (1 + span / 8 % 4) * tvec::detail::geometry::width_of(level);
    }

    static tvec::jiffies alias(const operation& op, tvec::jiffies now) {
        const unsigned level = 1 + op.span % (tvec::detail::geometry::levels - 1);
        const tvec::jiffies width = tvec::detail::geometry::width_of(level);
        return width * tvec::detail::geometry::ring_of(level) - 1 - op.offset % 2 * (now % width);
    }

    tvec::jiffies last_ = 100;
};

}  // namespace support
