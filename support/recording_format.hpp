// A recording: what a program asked of its timers and when. servers/recorder.hpp writes
// one, bench/workloads/recording.hpp reads it.
//
// Eight numbers of 8 bytes, little endian, as in `recording_header`; then `operations` operations
// in `bytes` bytes. An operation is one or two varints (7 bits to a byte, the lowest first, the top
// bit set in all but the last). The first is 4 * value + kind:
//
//   kind       value          second varint
//   advance    ticks          -                     time goes on, and what is due by then fires
//   arm        timer          ticks until it fires, from now: 1 to `longest_delay`
//   cancel     timer          -
//
// Timers are numbered from 0, in the order in which they first occur, and may be pending or not
// when they are armed or cancelled. Time begins at tick 0. Whenever something fires, an advance
// ends at its tick. What a callback did follows the advance; but what was done to a timer that was
// due and had not fired yet, comes before it.
#pragma once

#include <cstdint>

namespace example {

struct recording_header {
    static constexpr std::uint64_t the_magic = 0x73706f2d63657674;  // "tvec-ops"
    static constexpr std::uint64_t the_version = 1;

    std::uint64_t magic = 0;  // until the recording is complete
    std::uint64_t version = the_version;
    std::uint64_t tick_nanoseconds = 0;
    std::uint64_t timers = 0;
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;
    std::uint64_t fired = 0;
    std::uint64_t checksum = 0;  // the sum of `mark_of_fire` over all that fired
};

static_assert(sizeof(recording_header) == 64);

enum class operation : std::uint8_t { advance, arm, cancel };

constexpr std::uint64_t longest_delay = std::uint64_t{1} << 31;

// Mixes a timer and the tick at which it fired. Sums of these agree only if all fires do.
constexpr std::uint64_t mark_of_fire(std::uint64_t timer, std::uint64_t tick) {
    return (2 * timer + 1) * 0x9e3779b97f4a7c15 * tick;
}

}  // namespace example
