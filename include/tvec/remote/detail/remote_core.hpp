/// \file
/// A remote without its clock: everything that it does in ticks.
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
#include "tvec/core/timer_wheel.hpp"
#include "tvec/pool/detail/in_user_code.hpp"
#include "tvec/remote/detail/remote_cell.hpp"
#include "tvec/remote/remote_handle.hpp"

namespace tvec::detail {

/// What wakes the owner: a function of the mailbox, or one that a sender has brought along.
struct doorbell {
    void (*ring)(void* bell);
    void* bell;

    void operator()() const { ring(bell); }

    template <class Bell> static doorbell of(Bell& bell) noexcept {
        return {[](void* b) { (*static_cast<Bell*>(b))(); }, &bell};
    }
};

/// What the owner has to look at: a stack that many push onto and one takes as a whole (the
/// kernel's llist). Its head also says what the owner is at, so that one operation both leaves a
/// message and finds out whether the owner must be woken for it, or will not come any more.
class remote_mailbox {
public:
    enum class answer : std::uint8_t { left, left_ring, closed };

    /// Any thread. `l` is in no mailbox.
    answer push(remote_link& l) noexcept;
    bool closed() const noexcept { return head_.load(std::memory_order_relaxed) == &closed_; }

    /// The owner: all that has been pushed, the last first; from here on it counts as awake.
    remote_link* take_all() noexcept;
    /// The owner: who pushes next is told to ring. False: something has been pushed already.
    bool fall_asleep() noexcept;
    /// The owner: the same, and nothing is accepted from here on.
    remote_link* close() noexcept;

private:
    alignas(64) TVEC_REMOTE_ATOMIC<remote_link*> head_{nullptr};  ///< null: empty, owner awake
    remote_link asleep_, closed_;                                 ///< places that no message has
};

/// Slots that hold nothing: a stack of indices, with a tag that counts what was given back, lest
/// who takes the first of them take it for the same when it has come again.
class remote_vacancies {
public:
    static constexpr std::uint32_t most = (1U << 24) - 1;

    remote_vacancies(remote_cell* cells, std::uint32_t count) noexcept;
    remote_cell* take() noexcept;  ///< null: there is none
    TVEC_API void give_back(remote_cell& c) noexcept;

private:
    static constexpr std::uint64_t index_mask = most, tag = std::uint64_t{1} << 24;

    alignas(64) TVEC_REMOTE_ATOMIC<std::uint64_t> head_;  ///< index_mask: empty
    remote_cell* cells_;
};

/// The life of what was sent. Producers and the owner agree on it by the state word of its cell: a
/// cancel that has changed `pending` to `cancelled` has won, and so has the owner if it has changed
/// it to `running`. Whatever a producer changes it queues for the owner, who alone touches alarms,
/// functions and the wheel. While a cell is queued or its deadline is being written, its alarm
/// calls nothing: the owner sees the cell soon, and arms it anew.
// What threads share has lines of its own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class TVEC_API remote_core {
public:
    struct counters {
        std::uint64_t posted = 0;
        std::uint64_t fired = 0;
        std::uint64_t cancelled = 0;
        std::uint64_t overtaken = 0;
    };

    /// The deadline of what is called as soon as the owner comes by.
    static constexpr jiffies at_once = 0;

    remote_core(timer_wheel& wheel, std::size_t capacity, std::function<void()> bell);
    ~remote_core();
    remote_core(const remote_core&) = delete;
    remote_core& operator=(const remote_core&) = delete;

    // --- any thread -----------------------------------------------------------------------------

    /// The mailbox's own.
    doorbell bell() noexcept { return doorbell::of(bell_); }

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

    struct one_run;  // a call of `run`

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
    TVEC_REMOTE_ATOMIC<std::thread::id> owner_{};  ///< who has called `run` last
    remote_mailbox mailbox_;
    remote_vacancies vacancies_;

    // The owner's alone.
    remote_link* next_ = nullptr;  ///< taken out of the mailbox and not looked at yet, in order
    remote_link* last_ = nullptr;  ///< of these; means nothing if there is none
    std::size_t armed_ = 0;        ///< alarms that are pending
    std::size_t user_code_depth_ = 0;
    bool running_ = false;
    bool stopped_ = false;
    counters counters_;
};

/// A cell on its way in: nobody knows of it. Unless it is sent, nothing has happened.
class TVEC_API remote_reservation {
public:
    remote_reservation(remote_core& core, bool has_function) noexcept
        : core_(core), cell_(core.take(has_function, error_)) {}
    ~remote_reservation() {
        if (cell_) core_.vacancies_.give_back(*cell_);
    }
    remote_reservation(const remote_reservation&) = delete;
    remote_reservation& operator=(const remote_reservation&) = delete;

    /// Not none: there is no cell.
    send_error error() const noexcept { return error_; }
    remote_cell& cell() noexcept {
        assert(cell_ != nullptr && "there is no error, and nothing was sent yet");
        return *cell_;
    }

    /// The function is held.
    sent send(jiffies due, const doorbell& bell) {
        assert(cell_ != nullptr && "a reservation is sent once");
        return core_.send(*std::exchange(cell_, nullptr), due, bell);
    }

private:
    remote_core& core_;
    send_error error_ = send_error::none;
    remote_cell* cell_;
};

/// What `stop` has taken out, and shows to a visitor.
class TVEC_API remote_handover {
public:
    /// The first pending cell with an index from `index` on, if there is one.
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
