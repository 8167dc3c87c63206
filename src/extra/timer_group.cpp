#include "tvec/extra/timer_group.hpp"

#include <algorithm>
#include <cassert>

namespace tvec {

using detail::group_link;
using kind = detail::group_link::kind;

// --- one timeout --------------------------------------------------------------------------------

grouped_timer& timer_group::timer_of(group_link& l) noexcept {
    assert(l.what() == kind::timer && "the link is in a grouped_timer");
    return static_cast<grouped_timer&>(l);
}

bool timer_group::is_pending(group_link& l) noexcept {
    return l.what() == kind::timer ? timer_of(l).pending() : detail::node_around(l).armed();
}

jiffies timer_group::expires(group_link& l) noexcept {
    return l.what() == kind::timer ? timer_of(l).expires() : detail::node_around(l).deadline();
}

/// A timeout may be gone afterwards.
bool timer_group::cancel(group_link& l) noexcept {
    if (l.what() == kind::timer) return timer_of(l).cancel();
    detail::timeout_node& n = detail::node_around(l);
    return n.owner->cancel(detail::timeout_slabs::handle_of(n));
}

/// A timeout with an extra first call has a first deadline, too.
void timer_group::pause(group_link& l, timer_wheel& wheel, jiffies now) noexcept {
    const auto paused = [now](jiffies at) {
        return paused_from + std::min(at - std::min(at, now), paused_from - 2);
    };
    if (l.what() == kind::timer) {
        assert(detail::own_wheel::admits(wheel, timer_of(l)) && "a member is on this wheel");
        wheel.arm_at(timer_of(l), paused(timer_of(l).expires()));
        return;
    }
    detail::timeout_node& n = detail::node_around(l);
    assert(detail::own_wheel::admits(wheel, n.alarm) && "a member is on this wheel");
    n.owner->pause(n, {paused(n.deadline()), paused(n.due)});
}

void timer_group::resume(group_link& l, timer_wheel& wheel, jiffies now) noexcept {
    const auto again = [now](jiffies at) { return detail::later(now, at - paused_from); };
    if (l.what() == kind::timer) {
        assert(detail::own_wheel::admits(wheel, timer_of(l)) && "a member is on this wheel");
        wheel.arm_at(timer_of(l), again(timer_of(l).expires()));
        return;
    }
    detail::timeout_node& n = detail::node_around(l);
    assert(detail::own_wheel::admits(wheel, n.alarm) && "a member is on this wheel");
    n.owner->resume(n, {again(n.deadline()), again(n.due)});
}

timer_group::member timer_group::shown(group_link& l) noexcept {
    assert(is_pending(l) && "only pending members are shown");
    const bool is_timer = l.what() == kind::timer;
    const jiffies at = expires(l);
    return {is_timer ? &timer_of(l) : nullptr,
            is_timer ? timeout_handle() : detail::timeout_slabs::handle_of(detail::node_around(l)),
            is_paused(at) ? at - paused_from : at, is_paused(at)};
}

// --- the whole group ----------------------------------------------------------------------------

group_link* timer_group::next_pending(detail::group_walk& walk) noexcept {
    group_link* l = walk.next();
    while (l != nullptr && !is_pending(*l)) l = walk.next();
    return l;
}

/// Counts the pending members for which change(link) holds. No code of the user runs meanwhile.
template <class F> std::size_t timer_group::for_each_pending(const group_link& head, F change) {
    std::size_t changed = 0;
    for (group_link* l = &head.next(); l != &head; l = &l->next())
        if (l->what() != kind::place && is_pending(*l)) changed += change(*l);
    return changed;
}

std::size_t timer_group::count() const noexcept {
    return for_each_pending(head_, [](group_link&) { return true; });
}

std::size_t timer_group::cancel_all() noexcept {
    std::size_t cancelled = 0;
    for (detail::group_walk walk(head_); group_link* const l = next_pending(walk); ++cancelled)
        cancel(*l);
    return cancelled;
}

/// A walk that is under way ends.
void timer_group::disband() noexcept {
    while (&head_.next() != &head_) {
        group_link& l = head_.next();
        l.leave();
        if (l.what() != kind::place) cancel(l);
    }
}

void timer_group::take(timer_group& other) noexcept {
    assert(&head_.next() == &head_ && "a group takes the members of another when it is empty");
    head_.leave();
    head_ = std::move(other.head_);
    other.head_.begin_list();
}

// --- pause --------------------------------------------------------------------------------------

std::size_t timer_group::stop(timer_wheel& wheel, jiffies now) noexcept {
    assert(now < paused_from && "there is a tick to pause members at");
    return for_each_pending(head_, [&](group_link& l) {
        if (expires(l) >= paused_from) return false;
        pause(l, wheel, now);
        return true;
    });
}

std::size_t timer_group::start(timer_wheel& wheel, jiffies now) noexcept {
    assert(now < paused_from && "members are paused at a tick to come");
    return for_each_pending(head_, [&](group_link& l) {
        if (!is_paused(expires(l))) return false;
        resume(l, wheel, now);
        return true;
    });
}

}  // namespace tvec
