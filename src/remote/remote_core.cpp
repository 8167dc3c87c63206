#include "tvec/remote/detail/remote_core.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "tvec/core/detail/broken_promise.hpp"

namespace tvec::detail {

namespace {

using word = std::uint64_t;
namespace at = remote_state;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release_order = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;

constexpr word phase_of(word w) { return w & at::phase; }
constexpr word generation_of(word w) { return w >> at::generation_shift; }
constexpr word with_phase(word w, word phase) { return (w & ~at::phase) | phase; }

}  // namespace

// --- the mailbox --------------------------------------------------------------------------------

remote_mailbox::answer remote_mailbox::push(remote_link& l) noexcept {
    assert(&l != &asleep_ && &l != &closed_ && "a message is pushed, and no mark");
    remote_link* head = head_.load(relaxed);
    do {
        if (head == &closed_) return answer::closed;
        l.next = head == &asleep_ ? nullptr : head;
    } while (!head_.compare_exchange_weak(head, &l, release_order, relaxed));
    return head == &asleep_ ? answer::left_ring : answer::left;
}

remote_link* remote_mailbox::take_all() noexcept {
    if (head_.load(relaxed) == nullptr) return nullptr;
    remote_link* const taken = head_.exchange(nullptr, acquire);
    assert(taken != &closed_ && "a mailbox that is closed stays closed");
    return taken == &asleep_ ? nullptr : taken;
}

remote_link* remote_mailbox::close() noexcept {
    remote_link* const taken = head_.exchange(&closed_, acq_rel);
    return taken == &asleep_ || taken == &closed_ ? nullptr : taken;
}

bool remote_mailbox::fall_asleep() noexcept {
    remote_link* head = nullptr;
    return head_.compare_exchange_strong(head, &asleep_, relaxed, relaxed) || head == &asleep_;
}

// --- vacancies ----------------------------------------------------------------------------------

remote_vacancies::remote_vacancies(remote_cell* cells, std::uint32_t count) noexcept
    : head_(count == 0 ? index_mask : 0), cells_(cells) {
    assert(count <= most && "an index fits beside its tag");
    for (std::uint32_t i = 0; i < count; ++i)
        cells[i].next_vacant.store(i + 1 < count ? i + 1 : most, relaxed);
}

remote_cell* remote_vacancies::take() noexcept {
    word head = head_.load(acquire);
    word next = 0;
    do {
        if ((head & index_mask) == index_mask) return nullptr;
        next = cells_[head & index_mask].next_vacant.load(relaxed);
    } while (!head_.compare_exchange_weak(head, (head & ~index_mask) | next, acquire, acquire));
    return &cells_[head & index_mask];
}

void remote_vacancies::give_back(remote_cell& c) noexcept {
    assert(&cells_[c.index] == &c && "a cell goes back to its own remote");
    word head = head_.load(relaxed);
    do c.next_vacant.store(static_cast<std::uint32_t>(head & index_mask), relaxed);
    while (!head_.compare_exchange_weak(head, ((head & ~index_mask) + tag) | c.index, release_order,
                                        relaxed));
}

// --- from the first to the last -----------------------------------------------------------------

remote_core::remote_core(timer_wheel& wheel, std::size_t capacity, std::function<void()> bell)
    : wheel_(wheel), capacity_(static_cast<std::uint32_t>(
                         std::min<std::size_t>(capacity, remote_vacancies::most))),
      cells_(new remote_cell[capacity_]), bell_(std::move(bell)),
      vacancies_(cells_.get(), capacity_) {
    assert(bell_ && "a remote has a doorbell: [] {} if its loop comes round anyway");
    for (std::uint32_t i = 0; i < capacity_; ++i) {
        cells_[i].owner = this;
        cells_[i].index = i;
    }
}

/// Runs when the last holder lets go. Functions may be left that came while `stop` went by, or
/// after a visitor that threw. No alarm is linked in a wheel any more.
remote_core::~remote_core() {
    for (std::uint32_t i = 0; i < capacity_; ++i)
        if (phase_of(cells_[i].state.load(acquire)) != at::vacant) cells_[i].drop_function();
}

void remote_core::require_that_nobody_is_inside() const noexcept {
    if (user_code_depth_ != 0)
        broken_promise("a tvec::remote is destroyed by one of its own functions, or by the visitor "
                       "of its stop(): it must outlive them");
}

// --- in -----------------------------------------------------------------------------------------

remote_cell* remote_core::take(bool has_function, send_error& error) noexcept {
    remote_cell* c = nullptr;
    if (!has_function)
        error = send_error::no_function;
    else if (stopped())
        error = send_error::stopped;
    else if (c = vacancies_.take(); c == nullptr)
        error = send_error::full;
    return c;
}

remote_handle remote_core::handle_of(const remote_cell& c) noexcept {
    return {c.index, generation_of(c.state.load(relaxed))};
}

/// If the owner stops meanwhile, it does not look at the cell, which is only offered.
sent remote_core::send(remote_cell& c, jiffies due, const doorbell& bell) {
    assert(phase_of(c.state.load(relaxed)) == at::vacant && "a reserved cell is sent once");
    const word generation = generation_of(c.state.load(relaxed)) + 1;
    const word vacant = generation << at::generation_shift | at::vacant;
    c.due.store(due, relaxed);
    c.state.store(with_phase(vacant, at::pending) | at::queued | at::offered, release_order);
    if (queue(c, bell)) return {remote_handle(c.index, generation), send_error::none};
    c.drop_function();
    c.state.store(vacant, relaxed);
    return {{}, send_error::stopped};
}

/// Leaves `c` in the mailbox. Returns false if the owner has stopped: it looks at all cells by
/// itself.
bool remote_core::queue(remote_cell& c, const doorbell& bell) {
    const remote_mailbox::answer a = mailbox_.push(c);
    if (a == remote_mailbox::answer::left_ring) bell();
    return a != remote_mailbox::answer::closed;
}

// --- one of them --------------------------------------------------------------------------------

remote_cell* remote_core::find(remote_handle h) const noexcept {
    return h && h.index_ < capacity_ ? &cells_[h.index_] : nullptr;
}

bool remote_core::cancel(remote_handle h, const doorbell& bell) {
    remote_cell* const c = find(h);
    if (!c) return false;
    word w = c->state.load(relaxed);
    do
        if (generation_of(w) != h.generation_ || phase_of(w) != at::pending) return false;
    while (!c->state.compare_exchange_weak(w, with_phase(w, at::cancelled) | at::queued, acq_rel,
                                           relaxed));
    if (!(w & at::queued)) queue(*c, bell);
    return true;
}

bool remote_core::cancel_and_wait(remote_handle h, const doorbell& bell) {
    const bool was_pending = cancel(h, bell);
    remote_cell* const c = find(h);
    if (!c || owner_.load(relaxed) == std::this_thread::get_id()) return was_pending;
    word w = c->state.load(acquire);
    while (generation_of(w) == h.generation_ && phase_of(w) != at::vacant) {
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
bool remote_core::reschedule(remote_handle h, jiffies due, const doorbell& bell) {
    remote_cell* const c = find(h);
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

struct remote_core::one_run {
    explicit one_run(remote_core& c) noexcept : core(c) { core.running_ = true; }
    ~one_run() { core.running_ = false; }
    one_run(const one_run&) = delete;
    one_run& operator=(const one_run&) = delete;

    remote_core& core;
};

std::size_t remote_core::run(std::size_t budget) {
    if (running_ || stopped_) return 0;
    const one_run here(*this);
    owner_.store(std::this_thread::get_id(), relaxed);
    collect();
    std::size_t seen = 0;
    for (; next_ && seen < budget; ++seen)
        look_at(static_cast<remote_cell&>(*std::exchange(next_, next_->next)));
    return seen;
}

/// Reverses the new messages, so that the first is first, and appends them to those that are left.
void remote_core::collect() noexcept {
    remote_link* const newest = mailbox_.take_all();
    if (!newest) return;
    remote_link* oldest = nullptr;
    for (remote_link* l = newest; l != nullptr;) {
        remote_link* const before = std::exchange(l->next, oldest);
        oldest = std::exchange(l, before);
    }
    (next_ ? last_->next : next_) = oldest;
    last_ = newest;
}

/// Deals with a queued cell. If its deadline is being written, the writer will queue the cell
/// again.
void remote_core::look_at(remote_cell& c) {
    const word w = c.state.fetch_and(~(at::queued | at::offered), acq_rel);
    assert(w & at::queued && "a cell in the mailbox is queued");
    if (w & at::moving) return;
    const jiffies due = c.due.load(relaxed);
    if (phase_of(w) == at::cancelled) {
        ++counters_.cancelled;
        release(c);
    } else if (due != at_once) {
        armed_ += !wheel_.arm_at(c.alarm, due);
    } else if (begin_to_call(c)) {
        ++counters_.posted;
        call(c);
    }
}

void run_remote(timer_wheel&, timer& t) {
    remote_cell& c = owner_of<&remote_cell::alarm>(t);
    c.owner->on_alarm(c);
}

void remote_core::on_alarm(remote_cell& c) {
    assert(armed_ != 0 && "each alarm that is pending is counted");
    --armed_;
    if (!begin_to_call(c)) {
        ++counters_.overtaken;
        return;
    }
    ++counters_.fired;
    call(c);
}

/// Begins a call, unless the cell has changes that the owner has not seen.
bool remote_core::begin_to_call(remote_cell& c) noexcept {
    word w = c.state.load(acquire);
    do
        if (phase_of(w) != at::pending || w & (at::queued | at::moving)) return false;
    while (!c.state.compare_exchange_weak(w, with_phase(w, at::running), acq_rel, acquire));
    return true;
}

void remote_core::call(remote_cell& c) {
    struct release_at_end {
        ~release_at_end() { core.release(cell); }
        remote_core& core;
        remote_cell& cell;
    };
    assert(phase_of(c.state.load(relaxed)) == at::running && "begin_to_call has returned true");
    const in_user_code here(user_code_depth_);
    const release_at_end after{*this, c};
    c.function->call(c.storage, handle_of(c));
}

/// The destructor of the function may send, and a thread that waits for its end may go on. Once the
/// owner has stopped no cell is reused: a thread may still be writing to it.
void remote_core::release(remote_cell& c) noexcept {
    assert(phase_of(c.state.load(relaxed)) != at::vacant && "a function is released once");
    assert(phase_of(c.state.load(relaxed)) != at::pending && "it is not going to be called");
    const in_user_code here(user_code_depth_);
    armed_ -= c.alarm.cancel();
    c.drop_function();
    const word generation = generation_of(c.state.load(relaxed)) << at::generation_shift;
    if (c.state.exchange(generation | at::vacant, acq_rel) & at::awaited) c.state.notify_all();
    if (!stopped_) vacancies_.give_back(c);
}

/// Called by the owner last before it sleeps.
void remote_core::rearm() {
    if (!stopped_ && (next_ || !mailbox_.fall_asleep())) bell_();
}

// --- out ----------------------------------------------------------------------------------------

void remote_core::stop() noexcept {
    stopped_ = true;
    accept(mailbox_.close());
    accept(std::exchange(next_, nullptr));
}

void remote_core::accept(remote_link* all) noexcept {
    for (; all; all = all->next)
        static_cast<remote_cell*>(all)->state.fetch_and(~at::offered, relaxed);
}

/// Unlinks its alarm, because the cell may outlive the owner. Returns whether the function was
/// pending: then the caller ends it.
bool remote_core::take_out(remote_cell& c) noexcept {
    armed_ -= c.alarm.cancel();
    c.alarm = timer(run_remote);
    word w = c.state.load(acquire);
    while (phase_of(w) == at::pending && !(w & at::offered))
        if (c.state.compare_exchange_weak(w, with_phase(w, at::running), acq_rel, acquire))
            return true;
    if (phase_of(w) == at::cancelled) {
        ++counters_.cancelled;
        release(c);
    }
    return false;
}

remote_handover::remote_handover(remote_core& core, std::uint32_t& index) noexcept : core_(core) {
    for (; index < core.capacity_ && !cell_; ++index)
        if (core.take_out(core.cells_[index])) cell_ = &core.cells_[index];
    if (cell_) here_.emplace(core.user_code_depth_);
}

remote_handover::~remote_handover() {
    if (!cell_) return;
    if (!has_run_) ++core_.counters_.cancelled;
    core_.release(*cell_);
}

bool remote_handover::run() {
    assert(cell_ != nullptr && "a function was taken out");
    if (std::exchange(has_run_, true)) return false;
    cell_->function->call(cell_->storage, handle());
    return true;
}

}  // namespace tvec::detail
