// The processor's performance counters, where the machine has them and permits their use.
#pragma once

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>

namespace bench {

// Counts one kind of event of this thread in user space, while it runs.
class perf_counter {
public:
    struct kind {
        const char* name;
        std::uint32_t type;
        std::uint64_t config;
    };
    static constexpr std::uint64_t l1_read_misses = PERF_COUNT_HW_CACHE_L1D |
                                                    (PERF_COUNT_HW_CACHE_OP_READ << 8) |
                                                    (PERF_COUNT_HW_CACHE_RESULT_MISS << 16);
    static constexpr std::array<kind, 4> kinds{
        {{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
         {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
         {"L1 misses", PERF_TYPE_HW_CACHE, l1_read_misses},
         {"LLC misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES}}};

    explicit perf_counter(const kind& k) {
        perf_event_attr wanted{};
        wanted.size = sizeof wanted;
        wanted.type = k.type;
        wanted.config = k.config;
        wanted.disabled = 1;
        wanted.exclude_kernel = 1;
        wanted.exclude_hv = 1;
        fd_ = static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0));
    }
    ~perf_counter() {
        if (fd_ >= 0) close(fd_);
    }
    perf_counter(const perf_counter&) = delete;
    perf_counter& operator=(const perf_counter&) = delete;

    void run() { control(PERF_EVENT_IOC_ENABLE); }
    void pause() { control(PERF_EVENT_IOC_DISABLE); }

    // Empty if not available here.
    std::optional<std::uint64_t> count() const {
        std::uint64_t n = 0;
        if (fd_ < 0 || read(fd_, &n, sizeof n) != sizeof n) return std::nullopt;
        return n;
    }

private:
    void control(unsigned long request) {
        if (fd_ >= 0) ioctl(fd_, request, 0);
    }

    int fd_ = -1;
};

}  // namespace bench
