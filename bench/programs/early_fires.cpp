// A test of the test bed: a structure that fires a timer a tick early is found out, also if it
// tells the tick of the deadline.
#include <cstdint>
#include <cstdio>

#include "../workloads/test_bed.hpp"

namespace {

template <std::uint64_t early> struct one_timer {
    static constexpr const char* name = "one timer";
    static constexpr bench::description is{"", "", "", ""};
    struct node {
        std::uint64_t deadline = 0;
    };

    std::uint64_t now() const { return now_; }
    void arm(node& n, std::uint64_t at) {
        n.deadline = at;
        armed_ = &n;
    }
    void cancel(node&) { armed_ = nullptr; }
    void advance(std::uint64_t until) {
        if (armed_ != nullptr && armed_->deadline <= until + early) {
            bench::seen.note(*armed_, armed_->deadline);
            armed_ = nullptr;
        }
        now_ = until;
    }

private:
    std::uint64_t now_ = bench::start;
    node* armed_ = nullptr;
};

template <std::uint64_t early> bool is_refused() {
    bench::seen.restart(nullptr, 0);
    bench::observed<one_timer<early>> wheel;
    typename one_timer<early>::node n;
    wheel.arm(n, bench::start + 10);
    while (wheel.now() < bench::start + 20) wheel.advance(wheel.now() + 1);
    return bench::seen.fired() == 1 && bench::seen.fault() != nullptr;
}

}  // namespace

int main() {
    const bool right = is_refused<1>() && !is_refused<0>();
    if (!right) std::fputs("early_fires: the test bed believes what a structure tells\n", stderr);
    return right ? 0 : 1;
}
