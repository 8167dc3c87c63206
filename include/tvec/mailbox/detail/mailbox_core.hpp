/// \file
/// A mailbox without its clock: all of `mailbox`, in ticks.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/function_ref.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/mailbox/detail/mailbox_cell.hpp"
#include "tvec/mailbox/detail/mailbox_handle.hpp"
#include "tvec/mailbox/detail/mailbox_parts.hpp"
#include "tvec/pool/detail/in_user_code.hpp"

namespace tvec::detail {

/// Refers to the function that wakes the owner: that of the mailbox, or that of a sender.
using doorbell = function_ref<void()>;

/// The messages for the owner: a stack that many threads push onto and the owner takes as a whole
/// (the kernel's llist). Its head also holds the state of the owner. So one operation leaves a
/// message, and tells whether the owner must be woken for it or has closed the mailbox.
class mailbox_queue {
public:
    enum class answer : std::uint8_t { left, left_ring, closed };

    /// Any thread: pushes `l`, which is in no mailbox.
    answer push(mailbox_link& l) noexcept;
    bool closed() const noexcept { return head_.load(std::memory_order_relaxed) == &closed_; }

    /// The owner: takes all that was pushed, the last first. The owner then counts as awake.
    mailbox_link* take_all() noexcept;
    /// The owner: marks itself asleep, so that the next push returns `left_ring`. Returns false if
    /// something was pushed already.
    bool fall_asleep() noexcept;
    /// The owner: takes all that was pushed, and accepts nothing from here on.
    mailbox_link* close() noexcept;

private:
    alignas(64) mailbox_atomic<mailbox_link*> head_{nullptr};  ///< null: empty, owner awake
    mailbox_link asleep_, closed_;                             ///< marks, which are no messages
};

/// The cells that are vacant: a bit for each, in words on cache lines of their own. A thread takes
/// the next cell where it has taken the last one, so that threads which send at once write to
/// different words. Taking is O(1) while a quarter of the cells is vacant; the last ones are found
/// by a search through all words.
// Shared data has cache lines of its own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class mailbox_vacancies {
public:
    static constexpr std::uint32_t most = (1U << 24) - 1;

    mailbox_vacancies(mailbox_cell* cells, std::uint32_t count);
    mailbox_cell* take() noexcept;  ///< null: there is no vacant cell
    TVEC_API void give_back(mailbox_cell& c) noexcept;

private:
    using word = std::uint64_t;
    struct alignas(64) some_cells {
        mailbox_atomic<word> vacant{0};
    };
    /// Where threads look first. Those of a lane share it.
    struct alignas(64) lane {
        mailbox_atomic<std::uint32_t> first{0};
    };

    lane& lane_of_caller() noexcept;
    mailbox_cell* take(lane& mine) noexcept;
    mailbox_cell* take_from(std::uint32_t index) noexcept;

    mailbox_cell* const cells_;
    const std::uint32_t last_word_;  ///< the number of words is a power of two
    std::unique_ptr<some_cells[]> words_;
    lane lanes_[mailbox_lanes];
    /// The number of cells that were given back. Where it stays the same from before the first
    /// look at a word to after the last, there was a moment without a vacant cell.
    alignas(64) mailbox_atomic<word> given_back_{0};
};

/// The life of sent functions. Producers and the owner agree on it by the state word of the cell. A
/// cancel wins if it changes `pending` to `cancelled`, and the owner wins if it changes `pending`
/// to `running`. A producer queues every change for the owner. Only the owner touches alarms,
/// functions and the wheel. While a cell is queued or its deadline is being written, its alarm
/// calls nothing: the owner looks at the cell soon, and arms it again.
// Shared data has cache lines of its own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class TVEC_API mailbox_core {
public:
    struct counters {
        std::uint64_t posted = 0;
        std::uint64_t fired = 0;
        std::uint64_t cancelled = 0;
        std::uint64_t overtaken = 0;
    };

    /// The deadline of a posted function: the next visit of the owner.
    static constexpr jiffies at_once = 0;

    mailbox_core(timer_wheel& wheel, std::size_t capacity, std::function<void()> bell);
    ~mailbox_core();
    mailbox_core(const mailbox_core&) = delete;
    mailbox_core& operator=(const mailbox_core&) = delete;

    // --- any thread -----------------------------------------------------------------------------

    /// Returns the doorbell of the mailbox.
    doorbell bell() noexcept { return bell_; }

    bool cancel(mailbox_handle h, const doorbell& bell);
    bool cancel_and_wait(mailbox_handle h, const doorbell& bell);
    bool reschedule(mailbox_handle h, jiffies due, const doorbell& bell);
    bool stopped() const noexcept { return queue_.closed(); }

    // --- the owner ------------------------------------------------------------------------------

    std::size_t run(std::size_t budget);
    void rearm();
    void stop() noexcept;
    void give_to(std::thread::id owner) noexcept;
    void require_that_nobody_is_inside() const noexcept;

    std::uint32_t capacity() const noexcept { return capacity_; }
    std::size_t armed() const noexcept { return armed_; }
    const counters& count() const noexcept { return counters_; }

private:
    friend class mailbox_reservation;
    friend class mailbox_handover;
    friend void run_mailbox(timer_wheel&, timer&);

    struct one_run;  // a call of `run` in progress

    mailbox_cell* take(bool has_function, send_error& error) noexcept;
    sent send(mailbox_cell& c, jiffies due, const doorbell& bell);
    bool queue(mailbox_cell& c, const doorbell& bell);
    void clear_offers(mailbox_link* all) noexcept;
    mailbox_cell* find(mailbox_handle h) const noexcept;
    mailbox_handle handle_of(const mailbox_cell& c) const noexcept;

    bool is_owner() const noexcept;
    void adopt_caller() noexcept;
    void collect() noexcept;
    void process_cell(mailbox_cell& c);
    void arm(mailbox_cell& c, jiffies due);
    void disarm(mailbox_cell& c) noexcept;
    void on_alarm(mailbox_cell& c);
    bool begin_to_call(mailbox_cell& c) noexcept;
    void call(mailbox_cell& c);
    void drop_cancelled(mailbox_cell& c) noexcept;
    void release(mailbox_cell& c) noexcept;
    bool take_out(mailbox_cell& c) noexcept;

    timer_wheel& wheel_;
    const std::uint32_t capacity_;
    std::unique_ptr<mailbox_cell[]> cells_;
    std::function<void()> bell_;
    mailbox_atomic<std::thread::id> owner_;
    mailbox_queue queue_;
    mailbox_vacancies vacancies_;

    // Touched by the owner only.
    mailbox_link* next_ = nullptr;  ///< taken out of the mailbox and not looked at yet, in order
    mailbox_link* last_ = nullptr;  ///< the last of these; undefined if there are none
    std::size_t armed_ = 0;         ///< cells whose alarm was armed, and has not fired since
    std::size_t user_code_depth_ = 0;
    bool running_ = false;
    bool stopped_ = false;
    counters counters_;
};

/// A reserved cell, which no other thread knows. Unless it is sent, nothing has happened.
class TVEC_API mailbox_reservation {
public:
    mailbox_reservation(mailbox_core& core, bool has_function) noexcept
        : core_(core), cell_(core.take(has_function, error_)) {}
    ~mailbox_reservation() {
        if (cell_) core_.vacancies_.give_back(*cell_);
    }
    mailbox_reservation(const mailbox_reservation&) = delete;
    mailbox_reservation& operator=(const mailbox_reservation&) = delete;

    /// Returns the reason why there is no cell, or none.
    send_error error() const noexcept { return error_; }
    mailbox_cell& cell() noexcept {
        assert(cell_ != nullptr && "there is no error, and nothing was sent yet");
        return *cell_;
    }

    /// Sends the function. Requires that the cell holds one.
    sent send(jiffies due, const doorbell& bell) {
        assert(cell_ != nullptr && "a reservation is sent once");
        return core_.send(*std::exchange(cell_, nullptr), due, bell);
    }

private:
    mailbox_core& core_;
    send_error error_ = send_error::none;
    mailbox_cell* cell_;
};

/// A function that `stop` has taken out, and shows to a visitor.
class TVEC_API mailbox_handover {
public:
    /// Takes out the first pending cell with an index from `index` on, if there is one.
    mailbox_handover(mailbox_core& core, std::uint32_t& index) noexcept;
    ~mailbox_handover();
    mailbox_handover(const mailbox_handover&) = delete;
    mailbox_handover& operator=(const mailbox_handover&) = delete;

    explicit operator bool() const noexcept { return cell_ != nullptr; }
    mailbox_handle handle() const noexcept { return core_.handle_of(cell()); }
    jiffies due() const noexcept { return cell().due.load(std::memory_order_relaxed); }
    bool run();

private:
    mailbox_cell& cell() const noexcept {
        assert(cell_ != nullptr && "a function was taken out");
        return *cell_;
    }

    mailbox_core& core_;
    mailbox_cell* cell_ = nullptr;
    std::optional<in_user_code> here_;
    bool has_run_ = false;
};

}  // namespace tvec::detail
