// Writes a recording of the timers of a program, while it runs: see recording_format.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../support/program.hpp"
#include "../support/recording_format.hpp"
#include "tvec/core/timer.hpp"

namespace example {

// To be told of each operation after it was done, with the wheel's now(). A timer is known by its
// address: one that lives where another has died is the same. Costs a look-up in a hash table for
// each operation, and a write to the file for each megabyte.
class recorder {
public:
    recorder(std::string file, std::chrono::nanoseconds tick, tvec::jiffies now)
        : file_(std::move(file)), origin_(now) {
        header_.tick_nanoseconds = static_cast<std::uint64_t>(tick.count());
        write_header();
        file_.flush();  // what takes no header takes no recording
    }

    void armed(const tvec::timer& t, tvec::jiffies now) {
        if (t.expires() - now > longest_delay)
            throw std::runtime_error("a delay is too long to be recorded");
        note(operation::arm, t, now, t.expires());
    }
    void cancelled(const tvec::timer& t, tvec::jiffies now) { note(operation::cancel, t, now, 0); }

    // First thing in the callback.
    void fired(const tvec::timer& t, tvec::jiffies now) {
        turn_to(now);
        known& k = of(t);
        k.expires = 0;
        ++header_.fired;
        header_.checksum += mark_of_fire(k.number, now - origin_);
    }

    // After each call of `advance`.
    void advanced(tvec::jiffies now) { turn_to(now); }

    // Completes the file: without this it is no recording.
    void finish() {
        end_tick();
        write_out();
        header_.magic = recording_header::the_magic;
        header_.timers = timers_.size();
        write_header();
        file_.finish();
    }

    const recording_header& header() const { return header_; }

private:
    struct known {
        std::uint64_t number;
        tvec::jiffies expires = 0;  // 0: not pending
    };
    struct noted {
        operation what;
        std::uint64_t number;
        tvec::jiffies expires;
    };

    known& of(const tvec::timer& t) {
        return timers_.try_emplace(&t, known{timers_.size()}).first->second;
    }

    void note(operation what, const tvec::timer& t, tvec::jiffies now, tvec::jiffies expires) {
        turn_to(now);
        known& k = of(t);
        const bool was_due = k.expires != 0 && k.expires <= now;
        (was_due ? before_ : after_).push_back({what, k.number, expires});
        k.expires = expires;
    }

    // Sets the tick to which the operations belong that are recorded from now on.
    void turn_to(tvec::jiffies now) {
        if (now == now_) return;
        end_tick();
        now_ = now;
    }

    void end_tick() {
        for (const noted& n : before_) encode(n);
        if (now_ != encoded_) encode(operation::advance, now_ - encoded_);
        encoded_ = now_;
        for (const noted& n : after_) encode(n);
        before_.clear();
        after_.clear();
        if (bytes_.size() >= 1'000'000) write_out();
    }

    void encode(const noted& n) {
        encode(n.what, n.number);
        if (n.what == operation::arm) encode(n.expires - encoded_);
    }
    void encode(operation what, std::uint64_t value) {
        encode(4 * value + static_cast<std::uint64_t>(what));
        ++header_.operations;
    }
    void encode(std::uint64_t number) {
        for (; number >= 128; number /= 128) bytes_ += static_cast<char>(number % 128 + 128);
        bytes_ += static_cast<char>(number);
    }

    void write_out() {
        std::fwrite(bytes_.data(), 1, bytes_.size(), file_.get());
        file_.flush();
        header_.bytes += bytes_.size();
        bytes_.clear();
    }
    void write_header() {
        file_.rewind();
        std::fwrite(&header_, sizeof header_, 1, file_.get());
    }

    output_file file_;
    recording_header header_;
    tvec::jiffies origin_;
    tvec::jiffies now_ = origin_;      // the tick of what is noted
    tvec::jiffies encoded_ = origin_;  // the tick that the encoded operations have reached
    std::vector<noted> before_;        // done to timers that were due and had not fired
    std::vector<noted> after_;
    std::string bytes_;
    std::unordered_map<const tvec::timer*, known> timers_;
};

}  // namespace example
