// Compares the fires that structures have seen: all must have seen the same.
#pragma once

#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

#include "../workloads/test_bed.hpp"

namespace bench {

// Compares what was seen last with what the first structure has seen.
class agreement {
public:
    explicit agreement(const char* work) : work_(work) {}

    void require_equal(std::string_view who) {
        if (seen.fault() != nullptr)
            throw std::runtime_error(fmt::format("{}: {} {}", work_, who, seen.fault()));
        if (first_name_.empty()) {
            first_ = seen;
            first_name_ = who;
        }
        if (first_ == seen) return;
        throw std::runtime_error(fmt::format(
            "{}: {} fired {} timers, {} fired {}; checksums of what fired when: {:x} and {:x}",
            work_, first_name_, first_.fired(), who, seen.fired(), first_.checksum(),
            seen.checksum()));
    }

private:
    const char* work_;
    std::string_view first_name_;
    tally first_;
};

}  // namespace bench
