#include "tvec/remote/detail/remote_core.hpp"

#include <algorithm>
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

remote_vacancies::remote_vacancies(remote_slot* slots, std::uint32_t count) noexcept
    : head_(count == 0 ? index_mask : 0), slots_(slots) {
    for (std::uint32_t i = 0; i < count; ++i)
        slots[i].next_vacant.store(i + 1 < count ? i + 1 : most, relaxed);
}

remote_slot* remote_vacancies::take() noexcept {
    word head = head_.load(acquire);
    word next = 0;
    do {
        if ((head & index_mask) == index_mask) return nullptr;
        next = slots_[head & index_mask].next_vacant.load(relaxed);
    } while (!head_.compare_exchange_weak(head, (head & ~index_mask) | next, acquire, acquire));
    return &slots_[head & index_mask];
}

void remote_vacancies::give_back(remote_slot& s) noexcept {
    word head = head_.load(relaxed);
    do s.next_vacant.store(static_cast<std::uint32_t>(head & index_mask), relaxed);
    while (!head_.compare_exchange_weak(head, ((head & ~index_mask) + tag) | s.index, release_order,
                                        relaxed));
}

// --- from the first to the last -----------------------------------------------------------------

/// While code of the user runs that was called from inside, the remote cannot be destroyed.
struct remote_core::in_user_code {
    explicit in_user_code(remote_core& c) noexcept : core(c) { ++core.in_user_code_; }
    ~in_user_code() { --core.in_user_code_; }
    in_user_code(const in_user_code&) = delete;
    in_user_code& operator=(const in_user_code&) = delete;

    remote_core& core;
};

remote_core::remote_core(timer_wheel& wheel, std::size_t capacity, std::function<void()> bell)
    : wheel_(wheel), capacity_(static_cast<std::uint32_t>(
                         std::min<std::size_t>(capacity, remote_vacancies::most))),
      slots_(new remote_slot[capacity_]), bell_(std::move(bell)),
      vacancies_(slots_.get(), capacity_) {
    for (std::uint32_t i = 0; i < capacity_; ++i) {
        slots_[i].owner = this;
        slots_[i].index = i;
    }
}

/// The last who held it has let go. What is left here came while `stop` went by, or after a visitor
/// that threw; no alarm hangs in a wheel any more.
remote_core::~remote_core() {
    for (std::uint32_t i = 0; i < capacity_; ++i)
        if (phase_of(slots_[i].state.load(acquire)) != at::vacant)
            slots_[i].function->destroy(slots_[i].storage);
}

void remote_core::require_that_nobody_is_inside() const noexcept {
    if (in_user_code_ != 0)
        broken_promise("a tvec::remote is destroyed by one of its own functions, or by the visitor "
                       "of its stop(): it must outlive them");
}

// --- in -----------------------------------------------------------------------------------------

remote_slot* remote_core::take(bool has_function, send_error& error) noexcept {
    remote_slot* s = nullptr;
    if (!has_function)
        error = send_error::no_function;
    else if (stopped())
        error = send_error::stopped;
    else if (s = vacancies_.take(); s == nullptr)
        error = send_error::full;
    return s;
}

remote_handle remote_core::handle_of(const remote_slot& s) noexcept {
    return {s.index, generation_of(s.state.load(relaxed))};
}

/// If the owner stops meanwhile, nobody looks at the slot, for it is only offered.
sent remote_core::send(remote_slot& s, jiffies due, const doorbell& bell) {
    const word generation = generation_of(s.state.load(relaxed)) + 1;
    const word vacant = generation << at::generation_shift | at::vacant;
    s.due.store(due, relaxed);
    s.state.store(with_phase(vacant, at::pending) | at::queued | at::offered, release_order);
    if (queue(s, bell)) return {remote_handle(s.index, generation), send_error::none};
    s.function->destroy(s.storage);
    s.state.store(vacant, relaxed);
    return {{}, send_error::stopped};
}

/// Leaves `s` in the mailbox. False: the owner has stopped, and looks at slots by itself.
bool remote_core::queue(remote_slot& s, const doorbell& bell) {
    const remote_mailbox::answer a = mailbox_.push(s);
    if (a == remote_mailbox::answer::left_ring) bell();
    return a != remote_mailbox::answer::closed;
}

// --- one of them --------------------------------------------------------------------------------

remote_slot* remote_core::find(remote_handle h) const noexcept {
    return h && h.index_ < capacity_ ? &slots_[h.index_] : nullptr;
}

bool remote_core::cancel(remote_handle h, const doorbell& bell) {
    remote_slot* const s = find(h);
    if (!s) return false;
    word w = s->state.load(relaxed);
    do
        if (generation_of(w) != h.generation_ || phase_of(w) != at::pending) return false;
    while (!s->state.compare_exchange_weak(w, with_phase(w, at::cancelled) | at::queued, acq_rel,
                                           relaxed));
    if (!(w & at::queued)) queue(*s, bell);
    return true;
}

bool remote_core::cancel_and_wait(remote_handle h, const doorbell& bell) {
    const bool was_pending = cancel(h, bell);
    remote_slot* const s = find(h);
    if (!s || owner_.load(relaxed) == std::this_thread::get_id()) return was_pending;
    word w = s->state.load(acquire);
    while (generation_of(w) == h.generation_ && phase_of(w) != at::vacant) {
        if (!(w & at::awaited)) {
            if (!s->state.compare_exchange_weak(w, w | at::awaited, acquire, acquire)) continue;
            w |= at::awaited;
        }
        s->state.wait(w, acquire);
        w = s->state.load(acquire);
    }
    return was_pending;
}

/// Nobody but who has set `moving` writes the deadline, and the slot is not used again until that
/// is over. Another one that comes meanwhile is as good as overwritten.
bool remote_core::reschedule(remote_handle h, jiffies due, const doorbell& bell) {
    remote_slot* const s = find(h);
    if (!s) return false;
    word w = s->state.load(relaxed);
    do {
        if (generation_of(w) != h.generation_ || phase_of(w) != at::pending) return false;
        if (w & at::moving) return true;
    } while (!s->state.compare_exchange_weak(w, w | at::moving, acquire, relaxed));
    s->due.store(due, relaxed);
    w = s->state.load(relaxed);
    while (!s->state.compare_exchange_weak(w, (w & ~at::moving) | at::queued, acq_rel, relaxed))
        continue;
    if (!(w & at::queued)) queue(*s, bell);
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
        look_at(static_cast<remote_slot&>(*std::exchange(next_, next_->next)));
    return seen;
}

/// Turns what has come round, so that the first is first, and puts it behind what is left.
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

/// If its deadline is being written, who does that will queue it again.
void remote_core::look_at(remote_slot& s) {
    const word w = s.state.fetch_and(~(at::queued | at::offered), acq_rel);
    if (w & at::moving) return;
    const jiffies due = s.due.load(relaxed);
    if (phase_of(w) == at::cancelled) {
        ++counters_.cancelled;
        release(s);
    } else if (due != at_once) {
        armed_ += !wheel_.arm_at(s.alarm, due);
    } else if (begin_to_call(s)) {
        ++counters_.posted;
        call(s);
    }
}

void run_remote(timer_wheel&, timer& t) {
    remote_slot& s = owner_of<&remote_slot::alarm>(t);
    s.owner->on_alarm(s);
}

void remote_core::on_alarm(remote_slot& s) {
    --armed_;
    if (!begin_to_call(s)) {
        ++counters_.overtaken;
        return;
    }
    ++counters_.fired;
    call(s);
}

/// Not if there is something about it that the owner has not seen.
bool remote_core::begin_to_call(remote_slot& s) noexcept {
    word w = s.state.load(acquire);
    do
        if (phase_of(w) != at::pending || w & (at::queued | at::moving)) return false;
    while (!s.state.compare_exchange_weak(w, with_phase(w, at::running), acq_rel, acquire));
    return true;
}

void remote_core::call(remote_slot& s) {
    struct release_at_end {
        ~release_at_end() { core.release(slot); }
        remote_core& core;
        remote_slot& slot;
    };
    const in_user_code here(*this);
    const release_at_end after{*this, s};
    s.function->call(s.storage, handle_of(s));
}

/// The function's destructor may send, and whoever waits for it to be gone may go on then. Once the
/// owner has stopped no slot is used again: somebody may still be writing to it.
void remote_core::release(remote_slot& s) noexcept {
    const in_user_code here(*this);
    armed_ -= s.alarm.cancel();
    s.function->destroy(s.storage);
    const word generation = generation_of(s.state.load(relaxed)) << at::generation_shift;
    if (s.state.exchange(generation | at::vacant, acq_rel) & at::awaited) s.state.notify_all();
    if (!stopped_) vacancies_.give_back(s);
}

/// Owner: the last thing before it sleeps.
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
        static_cast<remote_slot*>(all)->state.fetch_and(~at::offered, relaxed);
}

/// Unlinks its alarm, because the slot may outlive the owner. Returns whether it was pending; then
/// it is the caller's.
bool remote_core::take_out(remote_slot& s) noexcept {
    armed_ -= s.alarm.cancel();
    s.alarm = timer(run_remote);
    word w = s.state.load(acquire);
    while (phase_of(w) == at::pending && !(w & at::offered))
        if (s.state.compare_exchange_weak(w, with_phase(w, at::running), acq_rel, acquire))
            return true;
    if (phase_of(w) == at::cancelled) {
        ++counters_.cancelled;
        release(s);
    }
    return false;
}

remote_handover::remote_handover(remote_core& core, std::uint32_t& index) noexcept : core_(core) {
    for (; index < core.capacity_ && !slot_; ++index)
        if (core.take_out(core.slots_[index])) slot_ = &core.slots_[index];
    if (slot_) ++core.in_user_code_;
}

remote_handover::~remote_handover() {
    if (!slot_) return;
    if (!has_run_) ++core_.counters_.cancelled;
    core_.release(*slot_);
    --core_.in_user_code_;
}

bool remote_handover::run() {
    if (std::exchange(has_run_, true)) return false;
    slot_->function->call(slot_->storage, handle());
    return true;
}

}  // namespace tvec::detail
