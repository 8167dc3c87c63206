// Reads what servers/recorder.hpp has written, and refuses what is damaged.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../../support/recording_format.hpp"

namespace bench {

// The operations of a program, ready to be played. Reading throws std::runtime_error with one line
// that says what is wrong.
class recording {
public:
    struct step {
        example::operation what;
        std::uint32_t timer;  // armed, cancelled
        std::uint64_t tick;   // advanced to, armed for
    };

    explicit recording(const std::string& file) : name_(file) {
        const std::string bytes = read();
        left_ = std::string_view(bytes).substr(sizeof header_);
        if (header_.bytes != left_.size())
            refuse("truncated, or something follows: the header counts other bytes");
        // An operation takes a byte at least, so these bound what is allocated, too.
        if (header_.operations > left_.size() || header_.timers > header_.operations)
            refuse("counts more operations or timers than it can hold");
        steps_.reserve(header_.operations);
        for (std::uint64_t i = 0; i < header_.operations; ++i) steps_.push_back(next());
        if (!left_.empty()) refuse("bytes are left after the last operation");
        if (known_ != header_.timers) refuse("counts other timers than it has");
    }

    const example::recording_header& header() const { return header_; }
    const std::vector<step>& steps() const { return steps_; }
    std::uint64_t ticks() const { return now_; }
    std::uint64_t advances() const { return advances_; }
    std::size_t distinct_delays() const { return delays_.size(); }

private:
    static constexpr std::size_t longest_file = 256 << 20;
    static constexpr std::uint64_t longest_time = 1'000'000'000;  // ticks

    [[noreturn]] void refuse(const char* why) const {
        throw std::runtime_error(name_ + ": " + why);
    }

    std::string read() {
        std::ifstream in(name_, std::ios::binary);
        if (!in) refuse("cannot be opened");
        std::string bytes(sizeof header_, '\0');
        in.read(bytes.data(), sizeof header_);
        if (!in) refuse("too short for a recording");
        bytes.copy(reinterpret_cast<char*>(&header_), sizeof header_);
        if (header_.magic == 0) refuse("the program that recorded has not finished it");
        if (header_.magic != header_.the_magic) refuse("not a recording of timers");
        if (header_.version != header_.the_version) refuse("of another version of the format");
        if (header_.bytes > longest_file) refuse("longer than 256 MB");
        bytes.resize(sizeof header_ + header_.bytes + 1);  // one more shows whether there is more
        in.read(bytes.data() + sizeof header_, static_cast<std::streamsize>(header_.bytes + 1));
        bytes.resize(sizeof header_ + static_cast<std::size_t>(in.gcount()));
        return bytes;
    }

    std::uint64_t number() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 56; shift += 7) {
            if (left_.empty()) refuse("ends within an operation");
            const auto byte = static_cast<unsigned char>(left_.front());
            left_.remove_prefix(1);
            value |= std::uint64_t{byte % 128u} << shift;
            if (byte < 128) return value;
        }
        refuse("has a number that is too large");
    }

    step next() {
        const std::uint64_t first = number();
        const std::uint64_t value = first / 4;
        switch (static_cast<example::operation>(first % 4)) {
        case example::operation::advance:
            return {example::operation::advance, 0, advance(value)};
        case example::operation::arm:
            return {example::operation::arm, timer(value), now_ + delay(number())};
        case example::operation::cancel:
            return {example::operation::cancel, timer(value), 0};
        }
        refuse("has an operation of no known kind");
    }

    std::uint64_t advance(std::uint64_t ticks) {
        if (ticks > longest_time - now_) refuse("spans more than 1e9 ticks");
        ++advances_;
        return now_ += ticks;
    }
    std::uint64_t delay(std::uint64_t ticks) {
        if (ticks < 1 || ticks > example::longest_delay) refuse("has a delay out of range");
        delays_.insert(ticks);
        return ticks;
    }
    std::uint32_t timer(std::uint64_t number) {
        if (number > known_ || number >= header_.timers)
            refuse("has a timer that is not the next new one");
        known_ += number == known_;
        return static_cast<std::uint32_t>(number);
    }

    std::string name_;
    example::recording_header header_;
    std::string_view left_;
    std::vector<step> steps_;
    std::uint64_t known_ = 0;
    std::uint64_t advances_ = 0;
    std::set<std::uint64_t> delays_;
    std::uint64_t now_ = 0;
};

}  // namespace bench
