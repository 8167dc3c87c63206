// A recording: a program's calls on its timers and their times. servers/recorder.hpp writes one,
// bench/workloads/recording.hpp reads it.
//
// It begins with eight little-endian numbers of 8 bytes, as in `recording_header`. `operations`
// operations in `bytes` bytes follow. An operation is one or two varints: 7 bits per byte, lowest
// first, the top bit set in all but the last. The first varint is 4 * value + kind:
//
//   kind       value          second varint
//   advance    ticks          -                     time passes, and all due timers fire
//   arm        timer          ticks until it fires, from now: 1 to `longest_delay`
//   cancel     timer          -
//
// Timers are numbered from 0 in the order of first use. They may be pending or not when they are
// armed or cancelled. Time begins at tick 0. An advance ends at every tick on which a timer fires.
// Operations of a callback follow the advance. Operations on a timer that was due and had not fired
// yet precede it.
#pragma once

#include <cstdint>

namespace example {

struct recording_header {
    static constexpr std::uint64_t the_magic = 0x73706f2d63657674;  // "tvec-ops"
    static constexpr std::uint64_t the_version = 1;

    std::uint64_t magic = 0;  // 0 until the recording is complete
    std::uint64_t version = the_version;
    std::uint64_t tick_nanoseconds = 0;
    std::uint64_t timers = 0;
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;
    std::uint64_t fired = 0;
    std::uint64_t checksum = 0;  // the sum of `mark_of_fire` over all fires
};

static_assert(sizeof(recording_header) == 64);

enum class operation : std::uint8_t { advance, arm, cancel };

constexpr std::uint64_t longest_delay = std::uint64_t{1} << 31;

// A hash of timer and tick. Two runs have the same sum only if they had the same fires.
constexpr std::uint64_t mark_of_fire(std::uint64_t timer, std::uint64_t tick) {
    return (2 * timer + 1) * 0x9e3779b97f4a7c15 * tick;
}

}  // namespace example
