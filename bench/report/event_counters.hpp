// The processor's event counters by perf_event_open, where the machine has them and permits their
// use.
#pragma once

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace bench {

enum counted { cycles, instructions, branch_misses, cache_misses, all_counted };

// Of one batch. NaN: no such counter here.
using event_counts = std::array<double, all_counted>;
inline constexpr event_counts nothing_counted = [] {
    event_counts none{};
    none.fill(std::numeric_limits<double>::quiet_NaN());
    return none;
}();

// Counts events of this thread in user space between `run` and `pause`. The counters are one group,
// so that all count at the same time. If the processor gives the group only a part of that time,
// the counts are scaled up.
class event_counters {
public:
    struct kind {
        std::uint32_t type;
        std::uint64_t config;
    };
    using kinds = std::array<kind, all_counted>;
    static constexpr kinds hardware{{{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
                                     {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
                                     {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
                                     {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES}}};

    explicit event_counters(const kinds& wanted = hardware) {
        for (std::size_t i = 0; i < all_counted; ++i) {
            files_[i] = open(wanted[i], leader_);
            if (files_[i] < 0) continue;
            place_[i] = opened_++;
            if (leader_ < 0) leader_ = files_[i];
        }
    }
    ~event_counters() {
        for (const int file : files_)
            if (file >= 0) close(file);
    }
    event_counters(const event_counters&) = delete;
    event_counters& operator=(const event_counters&) = delete;

    bool has(counted what) const { return files_[what] >= 0; }

    void run() {
        before_ = read_group();
        control(PERF_EVENT_IOC_ENABLE);
    }
    event_counts pause() {
        control(PERF_EVENT_IOC_DISABLE);
        const group now = read_group();
        const double running = static_cast<double>(now.running - before_.running);
        const double scale = static_cast<double>(now.enabled - before_.enabled) / running;
        event_counts counts = nothing_counted;
        for (std::size_t i = 0; i < all_counted; ++i)
            if (files_[i] >= 0 && running > 0)
                counts[i] =
                    static_cast<double>(now.counts[place_[i]] - before_.counts[place_[i]]) * scale;
        return counts;
    }

private:
    struct group {  // as the kernel writes it
        std::uint64_t size, enabled, running;
        std::array<std::uint64_t, all_counted> counts;
    };

    static int open(const kind& k, int leader) {
        perf_event_attr wanted{};
        wanted.size = sizeof wanted;
        wanted.type = k.type;
        wanted.config = k.config;
        wanted.read_format =
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        wanted.disabled = leader < 0;
        wanted.exclude_kernel = 1;
        wanted.exclude_hv = 1;
        return static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, leader, 0));
    }
    group read_group() const {
        group g{};
        if (leader_ < 0 || read(leader_, &g, sizeof g) < 0) return {};
        return g;
    }
    void control(unsigned long request) const {
        if (leader_ >= 0) ioctl(leader_, request, PERF_IOC_FLAG_GROUP);
    }

    std::array<int, all_counted> files_{};
    std::array<std::size_t, all_counted> place_{};  // in the group
    std::size_t opened_ = 0;
    int leader_ = -1;
    group before_{};
};

// Counts what is measured, if there are any.
inline event_counters* counting = nullptr;

}  // namespace bench
