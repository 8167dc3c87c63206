// Messages between threads that each have a ring and share nothing else: from ring to ring where
// the kernel can (IORING_OP_MSG_RING), through queues and eventfds otherwise. Either way a message
// arrives as a completion, in the one place where its reader sleeps; nobody waits for anybody.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

#include "../support/descriptors.hpp"
#include "../support/ring.hpp"

namespace example {

// A message fits into the two words of a completion.
struct message {
    enum class kind : std::uint8_t { ask, cancel, expired, cancelled, stop, finished };
    kind what;
    std::uint16_t from = 0;    // which reader, to answer to; below 4096
    std::uint64_t number = 0;  // below 2^40
    int value = 0;             // not negative
};

namespace detail {

// The top byte of user data; the tags of others have 0 there.
inline constexpr std::uint64_t arrived_tag = 0xB5, sent_tag = 0xB6, bell_tag = 0xB7;

struct packed {
    std::uint64_t word = 0;
    int value = 0;
};

inline packed pack(const message& m) {
    return {arrived_tag << 56 | std::uint64_t{static_cast<std::uint8_t>(m.what)} << 52 |
                std::uint64_t{m.from} << 40 | m.number,
            m.value};
}

inline message unpack(const packed& p) {
    return {static_cast<message::kind>(p.word >> 52 & 0xF),
            static_cast<std::uint16_t>(p.word >> 40 & 0xFFF), p.word & ((1ull << 40) - 1), p.value};
}

// One writer, one reader. Each only ever writes its own end.
class queue {
public:
    bool push(const packed& p) {
        const std::size_t end = end_.load(std::memory_order_relaxed);
        if (end - begin_.load(std::memory_order_acquire) == items_.size()) return false;
        items_[end % items_.size()] = p;
        end_.store(end + 1, std::memory_order_release);
        return true;
    }

    bool pop(packed& p) {
        const std::size_t begin = begin_.load(std::memory_order_relaxed);
        if (begin == end_.load(std::memory_order_acquire)) return false;
        p = items_[begin % items_.size()];
        begin_.store(begin + 1, std::memory_order_release);
        return true;
    }

private:
    alignas(64) std::atomic<std::size_t> begin_ = 0;
    alignas(64) std::atomic<std::size_t> end_ = 0;
    std::array<packed, 1024> items_;
};

}  // namespace detail

// All that readers know of each other. Each enters its ring before any of them writes.
class post_office {
public:
    explicit post_office(unsigned readers) : rings_(readers, -1), queues_(readers * readers) {
        for (unsigned i = 0; i < readers; ++i) {
            bells_.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
            if (bells_.back().get() < 0) fail("cannot make an eventfd");
        }
        for (auto& q : queues_) q = std::make_unique<detail::queue>();
    }

    unsigned readers() const { return static_cast<unsigned>(rings_.size()); }
    void enter(unsigned reader, ring& r) { rings_[reader] = r.get().ring_fd; }
    int ring_of(unsigned reader) const { return rings_[reader]; }
    int bell_of(unsigned reader) const { return bells_[reader].get(); }
    detail::queue& between(unsigned from, unsigned to) { return *queues_[from * readers() + to]; }

private:
    std::vector<int> rings_;
    std::vector<descriptor> bells_;
    std::vector<std::unique_ptr<detail::queue>> queues_;
};

// One reader's way of writing and reading.
class mail {
public:
    virtual ~mail() = default;
    virtual void send(unsigned to, const message& m) = 0;
    // Passes on what has been sent. To be called at the end of a turn.
    virtual void flush() {}
    // Returns whether a completion was the mail's. Appends the messages that arrived with it to
    // `arrived`.
    virtual bool complete(std::uint64_t tag, int result, std::vector<message>& arrived) = 0;
    // Everything has left.
    virtual bool all_sent() const = 0;
};

// From ring to ring. A message is kept until its own completion says that it has arrived: where the
// other ring has no room for it, it is sent again.
class ring_mail final : public mail {
public:
    ring_mail(ring& r, const post_office& office) : ring_(r), office_(office) {}

    void send(unsigned to, const message& m) override {
        if (free_.empty()) {
            free_.push_back(kept_.size());
            kept_.emplace_back();
        }
        const std::size_t slot = free_.back();
        free_.pop_back();
        kept_[slot] = {office_.ring_of(to), detail::pack(m)};
        post(slot);
    }

    bool complete(std::uint64_t tag, int result, std::vector<message>& arrived) override {
        if (tag >> 56 == detail::arrived_tag) {
            arrived.push_back(detail::unpack({tag, result}));
            return true;
        }
        if (tag >> 56 != detail::sent_tag) return false;
        sent(tag & 0xFFFF'FFFF, result);
        return true;
    }

    bool all_sent() const override { return free_.size() == kept_.size(); }

private:
    struct letter {
        int ring = -1;
        detail::packed content;
    };

    void post(std::size_t slot) {
        const letter& l = kept_[slot];
        ring_.queue(detail::sent_tag << 56 | slot, io_uring_prep_msg_ring, l.ring,
                    static_cast<unsigned>(l.content.value), l.content.word, 0u);
    }

    void sent(std::size_t slot, int result) {
        if (result == -EAGAIN || result == -EOVERFLOW) return post(slot);
        if (result < 0)
            throw std::system_error(-result, std::system_category(), "IORING_OP_MSG_RING");
        free_.push_back(slot);
    }

    ring& ring_;
    const post_office& office_;
    std::vector<letter> kept_;
    std::vector<std::size_t> free_;
};

// Through a queue for each pair of readers, and an eventfd for each reader, which its ring polls.
class queue_mail final : public mail {
public:
    queue_mail(ring& r, post_office& office, unsigned self)
        : ring_(r), office_(office), self_(self), waiting_(office.readers()) {
        listen();
    }

    void send(unsigned to, const message& m) override { waiting_[to].push_back(detail::pack(m)); }

    // If a queue is full, rings the own bell: then its reader does not sleep, and tries again.
    void flush() override {
        for (unsigned to = 0; to < waiting_.size(); ++to) {
            auto& rest = waiting_[to];
            if (rest.empty()) continue;
            while (!rest.empty() && office_.between(self_, to).push(rest.front())) rest.pop_front();
            eventfd_write(office_.bell_of(to), 1);
            if (!rest.empty()) eventfd_write(office_.bell_of(self_), 1);
        }
    }

    bool complete(std::uint64_t tag, int, std::vector<message>& arrived) override {
        if (tag >> 56 != detail::bell_tag) return false;
        eventfd_t rings = 0;
        eventfd_read(office_.bell_of(self_), &rings);  // before looking: later ones ring again
        detail::packed p;
        for (unsigned from = 0; from < waiting_.size(); ++from)
            while (office_.between(from, self_).pop(p)) arrived.push_back(detail::unpack(p));
        listen();
        return true;
    }

    bool all_sent() const override {
        for (const auto& rest : waiting_)
            if (!rest.empty()) return false;
        return true;
    }

private:
    void listen() {
        ring_.queue(detail::bell_tag << 56, io_uring_prep_poll_add, office_.bell_of(self_),
                    unsigned{POLLIN});
    }

    ring& ring_;
    post_office& office_;
    unsigned self_;
    std::vector<std::deque<detail::packed>> waiting_;
};

// Returns whether rings can write to each other here. It tries, because kernel versions do not
// tell.
inline bool rings_can_write() {
    const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
        io_uring_get_probe(), io_uring_free_probe);
    return probe && io_uring_opcode_supported(probe.get(), IORING_OP_MSG_RING);
}

}  // namespace example
