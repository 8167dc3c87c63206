/// \file
/// A remote without its clock: all of `remote`, in ticks.
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
#include "tvec/pool/detail/in_user_code.hpp"
#include "tvec/remote/detail/remote_cell.hpp"
#include "tvec/remote/remote_handle.hpp"

namespace tvec::detail {

/// Refers to the function that wakes the owner: that of the mailbox, or that of a sender.
using doorbell = function_ref<void()>;

/// The messages for the owner: a stack that many threads push onto and the owner takes as a whole
/// (the kernel's llist). Its head also holds the state of the owner. So one operation leaves a
/// message, and tells whether the owner must be woken for it or has closed the mailbox.
class remote_mailbox {
public:
    enum class answer : std::uint8_t { left, left_ring, closed };

    /// Any thread: pushes `l`, which is in no mailbox.
    answer push(remote_link& l) noexcept;
    bool closed() const noexcept { return head_.load(std::memory_order_relaxed) == &closed_; }

    /// The owner: takes all that was pushed, the last first. The owner then counts as awake.
    remote_link* take_all() noexcept;
    /// The owner: marks itself asleep, so that the next push returns `left_ring`. Returns false if
    /// something was pushed already.
    bool fall_asleep() noexcept;
    /// The owner: takes all that was pushed, and accepts nothing from here on.
    remote_link* close() noexcept;

private:
    alignas(64) TVEC_REMOTE_ATOMIC<remote_link*> head_{nullptr};  ///< null: empty, owner awake
    remote_link asleep_, closed_;                                 ///< marks, which are no messages
};

/// A lock-free free list of cell indices. The head carries a tag that counts returned cells, which
/// prevents ABA.
class remote_vacancies {
public:
    static constexpr std::uint32_t most = (1U << 24) - 1;

    remote_vacancies(remote_cell* cells, std::uint32_t count) noexcept;
    remote_cell* take() noexcept;  ///< null: there is no vacant cell
    TVEC_API void give_back(remote_cell& c) noexcept;

private:
    static constexpr std::uint64_t index_mask = most, tag = std::uint64_t{1} << 24;

    alignas(64) TVEC_REMOTE_ATOMIC<std::uint64_t> head_;  ///< index_mask: empty
    remote_cell* cells_;
};

/// The life of sent functions. Producers and the owner agree on it by the state word of the cell. A
/// cancel wins if it changes `pending` to `cancelled`, and the owner wins if it changes `pending`
/// to `running`. A producer queues every change for the owner. Only the owner touches alarms,
/// functions and the wheel. While a cell is queued or its deadline is being written, its alarm
/// calls nothing: the owner looks at the cell soon, and arms it again.
// Shared data has cache lines of its own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class TVEC_API remote_core {
public:
    struct counters {
        std::uint64_t posted = 0;
        std::uint64_t fired = 0;
        std::uint64_t cancelled = 0;
        std::uint64_t overtaken = 0;
    };

    /// The deadline of a posted function: the next visit of the owner.
    static constexpr jiffies at_once = 0;

    remote_core(timer_wheel& wheel, std::size_t capacity, std::function<void()> bell);
    ~remote_core();
    remote_core(const remote_core&) = delete;
    remote_core& operator=(const remote_core&) = delete;

    // --- any thread -----------------------------------------------------------------------------

    /// Returns the doorbell of the mailbox.
    doorbell bell() noexcept { return bell_; }

    bool cancel(remote_handle h, const doorbell& bell);
    bool cancel_and_wait(remote_handle h, const doorbell& bell);
    bool reschedule(remote_handle h, jiffies due, const doorbell& bell);
    bool stopped() const noexcept { return mailbox_.closed(); }

    // --- the owner ------------------------------------------------------------------------------

    std::size_t run(std::size_t budget);
    void rearm();
    void stop() noexcept;
    void require_that_nobody_is_inside() const noexcept;

    std::uint32_t capacity() const noexcept { return capacity_; }
    std::size_t armed() const noexcept { return armed_; }
    const counters& count() const noexcept { return counters_; }

private:
    friend class remote_reservation;
    friend class remote_handover;
    friend void run_remote(timer_wheel&, timer&);

    struct one_run;  // a call of `run` in progress

    remote_cell* take(bool has_function, send_error& error) noexcept;
    sent send(remote_cell& c, jiffies due, const doorbell& bell);
    bool queue(remote_cell& c, const doorbell& bell);
    static void accept(remote_link* all) noexcept;
    remote_cell* find(remote_handle h) const noexcept;
    static remote_handle handle_of(const remote_cell& c) noexcept;

    void collect() noexcept;
    void look_at(remote_cell& c);
    void on_alarm(remote_cell& c);
    bool begin_to_call(remote_cell& c) noexcept;
    void call(remote_cell& c);
    void release(remote_cell& c) noexcept;
    bool take_out(remote_cell& c) noexcept;

    timer_wheel& wheel_;
    const std::uint32_t capacity_;
    std::unique_ptr<remote_cell[]> cells_;
    std::function<void()> bell_;
    TVEC_REMOTE_ATOMIC<std::thread::id> owner_{};  ///< the thread that called `run` last
    remote_mailbox mailbox_;
    remote_vacancies vacancies_;

    // Touched by the owner only.
    remote_link* next_ = nullptr;  ///< taken out of the mailbox and not looked at yet, in order
    remote_link* last_ = nullptr;  ///< the last of these; undefined if there are none
    std::size_t armed_ = 0;        ///< alarms that are pending
    std::size_t user_code_depth_ = 0;
    bool running_ = false;
    bool stopped_ = false;
    counters counters_;
};

/// A reserved cell, which no other thread knows. Unless it is sent, nothing has happened.
class TVEC_API remote_reservation {
public:
    remote_reservation(remote_core& core, bool has_function) noexcept
        : core_(core), cell_(core.take(has_function, error_)) {}
    ~remote_reservation() {
        if (cell_) core_.vacancies_.give_back(*cell_);
    }
    remote_reservation(const remote_reservation&) = delete;
    remote_reservation& operator=(const remote_reservation&) = delete;

    /// Returns the reason why there is no cell, or none.
    send_error error() const noexcept { return error_; }
    remote_cell& cell() noexcept {
        assert(cell_ != nullptr && "there is no error, and nothing was sent yet");
        return *cell_;
    }

    /// Sends the function. Requires that the cell holds one.
    sent send(jiffies due, const doorbell& bell) {
        assert(cell_ != nullptr && "a reservation is sent once");
        return core_.send(*std::exchange(cell_, nullptr), due, bell);
    }

private:
    remote_core& core_;
    send_error error_ = send_error::none;
    remote_cell* cell_;
};

/// A function that `stop` has taken out, and shows to a visitor.
class TVEC_API remote_handover {
public:
    /// Takes out the first pending cell with an index from `index` on, if there is one.
    remote_handover(remote_core& core, std::uint32_t& index) noexcept;
    ~remote_handover();
    remote_handover(const remote_handover&) = delete;
    remote_handover& operator=(const remote_handover&) = delete;

    explicit operator bool() const noexcept { return cell_ != nullptr; }
    remote_handle handle() const noexcept { return remote_core::handle_of(cell()); }
    jiffies due() const noexcept { return cell().due.load(std::memory_order_relaxed); }
    bool run();

private:
    remote_cell& cell() const noexcept {
        assert(cell_ != nullptr && "a function was taken out");
        return *cell_;
    }

    remote_core& core_;
    remote_cell* cell_ = nullptr;
    std::optional<in_user_code> here_;
    bool has_run_ = false;
};

}  // namespace tvec::detail
