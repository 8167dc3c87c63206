#include "tvec/mailbox/detail/mailbox_core.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "tvec/core/detail/broken_promise.hpp"

namespace tvec::detail {

namespace {

using word = std::uint64_t;
namespace at = mailbox_state;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release_order = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;

constexpr word phase_of(word w) { return w & at::phase; }
constexpr word generation_of(word w) { return w >> at::generation_shift; }
constexpr word with_phase(word w, word phase) { return (w & ~at::phase) | phase; }

}  // namespace

// --- the mailbox --------------------------------------------------------------------------------

mailbox_queue::answer mailbox_queue::push(mailbox_link& l) noexcept {
    assert(&l != &asleep_ && &l != &closed_ && "a message is pushed, and no mark");
    mailbox_link* head = head_.load(relaxed);
    do {
        if (head == &closed_) return answer::closed;
        l.next = head == &asleep_ ? nullptr : head;
    } while (!head_.compare_exchange_weak(head, &l, release_order, relaxed));
    return head == &asleep_ ? answer::left_ring : answer::left;
}

mailbox_link* mailbox_queue::take_all() noexcept {
    if (head_.load(relaxed) == nullptr) return nullptr;
    mailbox_link* const taken = head_.exchange(nullptr, acquire);
    assert(taken != &closed_ && "a mailbox that is closed stays closed");
    return taken == &asleep_ ? nullptr : taken;
}

mailbox_link* mailbox_queue::close() noexcept {
    mailbox_link* const taken = head_.exchange(&closed_, acq_rel);
    return taken == &asleep_ || taken == &closed_ ? nullptr : taken;
}

bool mailbox_queue::fall_asleep() noexcept {
    mailbox_link* head = nullptr;
    return head_.compare_exchange_strong(head, &asleep_, relaxed, relaxed) || head == &asleep_;
}

// --- vacancies ----------------------------------------------------------------------------------

namespace {

constexpr std::uint32_t per_word = mailbox_cells_per_word, lanes = mailbox_lanes;

}  // namespace

mailbox_vacancies::mailbox_vacancies(mailbox_cell* cells, std::uint32_t count)
    : cells_(cells), last_word_(std::bit_ceil((count + per_word - 1) / per_word) - 1),
      words_(new some_cells[last_word_ + 1]) {
    assert(count <= most && "an index fits");
    for (std::uint32_t i = 0; i < count; i += per_word) {
        const std::uint32_t here = std::min(per_word, count - i);
        words_[i / per_word].vacant.store(~word{0} >> (64 - here), relaxed);
    }
    for (std::uint32_t i = 0; i < lanes; ++i)
        lanes_[i].first.store((last_word_ + 1) * i / lanes, relaxed);
}

/// Threads have stacks of their own, and those of glibc lie side by side. Fibonacci's hash keeps
/// neighbours apart.
mailbox_vacancies::lane& mailbox_vacancies::lane_of_caller() noexcept {
    const int on_the_stack = 0;
    const word stack = reinterpret_cast<std::uintptr_t>(&on_the_stack) >> 16;
    return lanes_[(stack * 0x9e37'79b9'7f4a'7c15 >> 60) % lanes];
}

/// Who sees that a cell was taken also sees what was given back before, so that `take` finds it.
mailbox_cell* mailbox_vacancies::take_from(std::uint32_t index) noexcept {
    mailbox_atomic<word>& vacant = words_[index].vacant;
    word w = vacant.load(acquire);
    do
        if (w == 0) return nullptr;
    while (!vacant.compare_exchange_weak(w, w & (w - 1), acq_rel, acquire));
    return &cells_[index * per_word + static_cast<std::uint32_t>(std::countr_zero(w))];
}

mailbox_cell* mailbox_vacancies::take() noexcept { return take(lane_of_caller()); }

mailbox_cell* mailbox_vacancies::take(lane& mine) noexcept {
    const std::uint32_t first = mine.first.load(relaxed);
    if (mailbox_cell* const c = take_from(first)) return c;
    word before = 0, after = given_back_.load(acquire);
    do {
        for (std::uint32_t i = 0; i <= last_word_; ++i) {
            const std::uint32_t index = (first + i) & last_word_;
            mailbox_cell* const c = take_from(index);
            if (!c) continue;
            mine.first.store(index, relaxed);
            return c;
        }
        before = std::exchange(after, given_back_.load(acquire));
    } while (before != after);
    return nullptr;
}

void mailbox_vacancies::give_back(mailbox_cell& c) noexcept {
    const auto index = static_cast<std::uint32_t>(&c - cells_);
    assert(index / per_word <= last_word_ && "a cell goes back to its own mailbox");
    words_[index / per_word].vacant.fetch_or(word{1} << index % per_word, release_order);
    given_back_.fetch_add(1, release_order);
}

// --- lifetime -----------------------------------------------------------------------------------

mailbox_core::mailbox_core(timer_wheel& wheel, std::size_t capacity, std::function<void()> bell)
    : wheel_(wheel), capacity_(static_cast<std::uint32_t>(
                         std::min<std::size_t>(capacity, mailbox_vacancies::most))),
      cells_(new mailbox_cell[capacity_]), bell_(std::move(bell)),
      owner_(std::this_thread::get_id()), vacancies_(cells_.get(), capacity_) {
    assert(bell_ && "a mailbox has a doorbell: [] {} if its loop comes round anyway");
    for (std::uint32_t i = 0; i < capacity_; ++i) cells_[i].owner = this;
}

/// Runs when the last holder lets go. Functions may be left that came while `stop` went by, or
/// after a visitor that threw. No alarm is linked in a wheel any more.
mailbox_core::~mailbox_core() {
    for (std::uint32_t i = 0; i < capacity_; ++i)
        if (phase_of(cells_[i].state.load(acquire)) != at::vacant) cells_[i].drop_function();
}

void mailbox_core::require_that_nobody_is_inside() const noexcept {
    if (user_code_depth_ != 0)
        broken_promise(
            "a tvec::mailbox is destroyed by one of its own functions, or by the visitor "
            "of its stop(): it must outlive them");
}

// --- sending ------------------------------------------------------------------------------------

mailbox_cell* mailbox_core::take(bool has_function, send_error& error) noexcept {
    mailbox_cell* c = nullptr;
    if (!has_function)
        error = send_error::no_function;
    else if (stopped())
        error = send_error::stopped;
    else if (c = vacancies_.take(); c == nullptr)
        error = send_error::full;
    return c;
}

mailbox_handle mailbox_core::handle_of(const mailbox_cell& c) const noexcept {
    return {static_cast<std::uint32_t>(&c - cells_.get()), generation_of(c.state.load(relaxed))};
}

/// If the owner stops meanwhile, it does not look at the cell, which is only offered.
sent mailbox_core::send(mailbox_cell& c, jiffies due, const doorbell& bell) {
    assert(phase_of(c.state.load(relaxed)) == at::vacant && "a reserved cell is sent once");
    const word generation = generation_of(c.state.load(relaxed)) + 1;
    assert(generation >> (64 - at::generation_shift) == 0 && "a cell holds 2^58 functions at most");
    const word vacant = generation << at::generation_shift | at::vacant;
    c.due.store(due, relaxed);
    c.state.store(with_phase(vacant, at::pending) | at::queued | at::offered, release_order);
    const mailbox_handle h = handle_of(c);  // before the owner sees it
    if (queue(c, bell)) return {h, send_error::none};
    c.drop_function();
    c.state.store(vacant, relaxed);
    return {{}, send_error::stopped};
}

/// Leaves `c` in the mailbox. Returns false if the owner has stopped: it looks at all cells by
/// itself.
bool mailbox_core::queue(mailbox_cell& c, const doorbell& bell) {
    const mailbox_queue::answer a = queue_.push(c);
    if (a == mailbox_queue::answer::left_ring) bell();
    return a != mailbox_queue::answer::closed;
}

// --- cancelling and rescheduling ----------------------------------------------------------------

mailbox_cell* mailbox_core::find(mailbox_handle h) const noexcept {
    return h && h.index_ < capacity_ ? &cells_[h.index_] : nullptr;
}

bool mailbox_core::cancel(mailbox_handle h, const doorbell& bell) {
    mailbox_cell* const c = find(h);
    if (!c) return false;
    word w = c->state.load(relaxed);
    do
        if (generation_of(w) != h.generation_ || phase_of(w) != at::pending) return false;
    while (!c->state.compare_exchange_weak(w, with_phase(w, at::cancelled) | at::queued, acq_rel,
                                           relaxed));
    if (!(w & at::queued)) queue(*c, bell);
    return true;
}

/// Loads the state before it asks who the owner is: a thread that sees that the owner has called
/// the function also sees that owner, and not itself from before.
bool mailbox_core::cancel_and_wait(mailbox_handle h, const doorbell& bell) {
    const bool was_pending = cancel(h, bell);
    mailbox_cell* const c = find(h);
    if (!c) return was_pending;
    word w = c->state.load(acquire);
    if (is_owner()) return was_pending;
    const auto is_there = [&] {
        return generation_of(w) == h.generation_ && phase_of(w) != at::vacant;
    };
    // The bell of a sender may have left its ring in a queue that this thread submits.
    if (is_there() && !(bell == doorbell(bell_))) bell_();
    while (is_there()) {
        if (!(w & at::awaited)) {
            if (!c->state.compare_exchange_weak(w, w | at::awaited, acquire, acquire)) continue;
            w |= at::awaited;
        }
        c->state.wait(w, acquire);
        w = c->state.load(acquire);
    }
    return was_pending;
}

/// Only the thread that set `moving` writes the deadline, and the cell is not reused until that is
/// over. A concurrent reschedule is dropped, as if it had been overwritten.
bool mailbox_core::reschedule(mailbox_handle h, jiffies due, const doorbell& bell) {
    mailbox_cell* const c = find(h);
    if (!c) return false;
    word w = c->state.load(relaxed);
    do {
        if (generation_of(w) != h.generation_ || phase_of(w) != at::pending) return false;
        if (w & at::moving) return true;
    } while (!c->state.compare_exchange_weak(w, w | at::moving, acquire, relaxed));
    c->due.store(due, relaxed);
    w = c->state.load(relaxed);
    while (!c->state.compare_exchange_weak(w, (w & ~at::moving) | at::queued, acq_rel, relaxed))
        continue;
    if (!(w & at::queued)) queue(*c, bell);
    return true;
}

// --- the owner ----------------------------------------------------------------------------------

bool mailbox_core::is_owner() const noexcept {
    return owner_.load(relaxed) == std::this_thread::get_id();
}

/// Makes the calling thread the owner. Everything that only the owner calls begins with it.
void mailbox_core::adopt_caller() noexcept {
    assert((is_owner() || user_code_depth_ == 0) && "one thread at a time owns a mailbox");
    owner_.store(std::this_thread::get_id(), relaxed);
}

/// Makes a thread the owner, before it adopts the mailbox itself.
void mailbox_core::give_to(std::thread::id owner) noexcept { owner_.store(owner, relaxed); }

struct mailbox_core::one_run {
    explicit one_run(mailbox_core& c) noexcept : core(c) { core.running_ = true; }
    ~one_run() { core.running_ = false; }
    one_run(const one_run&) = delete;
    one_run& operator=(const one_run&) = delete;

    mailbox_core& core;
};

std::size_t mailbox_core::run(std::size_t budget) {
    adopt_caller();
    if (running_ || stopped_) return 0;
    const one_run here(*this);
    collect();
    std::size_t seen = 0;
    for (; next_ && seen < budget; ++seen)
        process_cell(static_cast<mailbox_cell&>(*std::exchange(next_, next_->next)));
    return seen;
}

/// Reverses the new messages, so that the first is first, and appends them to those that are left.
void mailbox_core::collect() noexcept {
    mailbox_link* const newest = queue_.take_all();
    if (!newest) return;
    mailbox_link* oldest = nullptr;
    for (mailbox_link* l = newest; l != nullptr;) {
        mailbox_link* const before = std::exchange(l->next, oldest);
        oldest = std::exchange(l, before);
    }
    (next_ ? last_->next : next_) = oldest;
    last_ = newest;
}

/// Deals with a queued cell. If its deadline is being written, the writer will queue the cell
/// again.
void mailbox_core::process_cell(mailbox_cell& c) {
    const word w = c.state.fetch_and(~(at::queued | at::offered), acq_rel);
    assert(w & at::queued && "a cell in the mailbox is queued");
    if (w & at::moving) return;
    const jiffies due = c.due.load(relaxed);
    if (phase_of(w) == at::cancelled) {
        drop_cancelled(c);
    } else if (due != at_once) {
        arm(c, due);
    } else if (begin_to_call(c)) {
        ++counters_.posted;
        call(c);
    }
}

/// Counts the cell once, although a drain of the wheel may have taken the alarm out.
void mailbox_core::arm(mailbox_cell& c, jiffies due) {
    wheel_.arm_at(c.alarm, due);
    armed_ += !std::exchange(c.armed, true);
}

void mailbox_core::disarm(mailbox_cell& c) noexcept {
    c.alarm.cancel();
    armed_ -= std::exchange(c.armed, false);
}

void run_mailbox(timer_wheel&, timer& t) {
    mailbox_cell& c = owner_of<&mailbox_cell::alarm>(t);
    c.owner->on_alarm(c);
}

void mailbox_core::on_alarm(mailbox_cell& c) {
    assert(is_owner() && "the owner of a mailbox runs its wheel");
    assert(c.armed && armed_ != 0 && "each alarm that is pending is counted");
    armed_ -= std::exchange(c.armed, false);
    if (!begin_to_call(c)) {
        ++counters_.overtaken;
        return;
    }
    ++counters_.fired;
    call(c);
}

/// Begins a call, unless the cell has changes that the owner has not seen. A cell without such
/// changes was written last by `process_cell`, which has acquired what the function needs, and has
/// released what those read that wait for its end.
bool mailbox_core::begin_to_call(mailbox_cell& c) noexcept {
    word w = c.state.load(relaxed);
    do
        if (phase_of(w) != at::pending || w & (at::queued | at::moving)) return false;
    while (!c.state.compare_exchange_weak(w, with_phase(w, at::running), relaxed, relaxed));
    return true;
}

void mailbox_core::call(mailbox_cell& c) {
    struct release_at_end {
        ~release_at_end() { core.release(cell); }
        mailbox_core& core;
        mailbox_cell& cell;
    };
    assert(phase_of(c.state.load(relaxed)) == at::running && "begin_to_call has returned true");
    const in_user_code here(user_code_depth_);
    const release_at_end after{*this, c};
    c.function->call(c.storage, handle_of(c));
}

/// Ends a cancelled function, of which the caller has acquired the cancel. It counts as running
/// from here on: its destructor may stop the mailbox, which must not find it cancelled again.
void mailbox_core::drop_cancelled(mailbox_cell& c) noexcept {
    static_assert((at::cancelled | at::running) == at::running);
    assert(phase_of(c.state.load(relaxed)) == at::cancelled && "a cancelled function is dropped");
    ++counters_.cancelled;
    disarm(c);
    c.state.fetch_or(at::running, relaxed);
    release(c);
}

/// The destructor of the function may do anything, and a thread that waits for its end may go on.
/// Once the owner has stopped no cell is reused: a thread may still be writing to it.
void mailbox_core::release(mailbox_cell& c) noexcept {
    assert(phase_of(c.state.load(relaxed)) == at::running && "a function is released once");
    assert(!c.armed && "a function that has ended has no alarm");
    const in_user_code here(user_code_depth_);
    c.drop_function();
    const word generation = generation_of(c.state.load(relaxed)) << at::generation_shift;
    if (c.state.exchange(generation | at::vacant, release_order) & at::awaited)
        c.state.notify_all();
    if (!stopped_) vacancies_.give_back(c);
}

/// Called by the owner last before it sleeps.
void mailbox_core::rearm() {
    adopt_caller();
    if (!stopped_ && (next_ || !queue_.fall_asleep())) bell_();
}

// --- stopping -----------------------------------------------------------------------------------

void mailbox_core::stop() noexcept {
    adopt_caller();
    stopped_ = true;
    clear_offers(queue_.close());
    clear_offers(std::exchange(next_, nullptr));
}

void mailbox_core::clear_offers(mailbox_link* all) noexcept {
    for (; all; all = all->next) {
        auto& c = static_cast<mailbox_cell&>(*all);
        assert(&c >= cells_.get() && &c < cells_.get() + capacity_ && "a message is in a cell");
        c.state.fetch_and(~at::offered, relaxed);
    }
}

/// Unlinks its alarm, because the cell may outlive the owner. Returns whether the function was
/// pending: then the caller ends it.
bool mailbox_core::take_out(mailbox_cell& c) noexcept {
    disarm(c);
    c.alarm = timer(run_mailbox);
    word w = c.state.load(acquire);
    while (phase_of(w) == at::pending && !(w & at::offered))
        if (c.state.compare_exchange_weak(w, with_phase(w, at::running), acq_rel, acquire))
            return true;
    if (phase_of(w) == at::cancelled) drop_cancelled(c);
    return false;
}

mailbox_handover::mailbox_handover(mailbox_core& core, std::uint32_t& index) noexcept
    : core_(core) {
    for (; index < core.capacity_ && !cell_; ++index)
        if (core.take_out(core.cells_[index])) cell_ = &core.cells_[index];
    if (cell_) here_.emplace(core.user_code_depth_);
}

mailbox_handover::~mailbox_handover() {
    if (!cell_) return;
    if (!has_run_) ++core_.counters_.cancelled;
    core_.release(*cell_);
}

bool mailbox_handover::run() {
    assert(cell_ != nullptr && "a function was taken out");
    if (std::exchange(has_run_, true)) return false;
    cell_->function->call(cell_->storage, handle());
    return true;
}

}  // namespace tvec::detail
