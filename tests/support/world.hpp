// Two wheels, the timers of both, and a model that knows what every operation must do. It runs a
// program (program.hpp) and throws a divergence at the first answer that is not the model's.
//
// `Oracle` is ledger, plain_array, or both at once (oracles.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/divergence.hpp"
#include "support/interfaces.hpp"
#include "support/program.hpp"
#include "support/starts.hpp"
#include "tvec/extra/snapshot.hpp"

namespace support {

using tvec::jiffies;

// The end of a story.
inline std::string last_lines(std::string_view story, std::size_t size = 1'000) {
    const std::size_t cut = story.size() > size ? story.find('\n', story.size() - size) + 1 : 0;
    return std::string(story.substr(cut));
}

template <class Oracle, class Interface = in_cpp> class world {
    using wheel_type = typename Interface::wheel;
    using timer_type = typename Interface::timer;

public:
    // `check_every`: how many operations there are from one check() of each wheel to the next.
    // `story`: where to write each call and its answer, if anywhere.
    world(const program& p, unsigned check_every, std::ostream* story = nullptr)
        : program_(p), check_every_(check_every), story_(story),
          fuel_(64 + 4 * p.operations.size()), sides_{side(start_of(p.start), p.shares_number()),
                                                      side(start_of(p.start) /
                                                               (p.shares_number() ? 1 : 2),
                                                           p.shares_number())} {
        for (int id = 0; id < subjects; ++id) at(id) = std::make_unique<subject>(*this, id);
    }

    // Returns how many operations were carried out, those in callbacks included.
    std::uint64_t run() {
        const std::span<const operation> all(program_.operations);
        for (std::size_t i = 0; i < all.size(); ++i) {
            const operation& op = all[i];
            if (op.action() == verb::script)
                i += set_script(op, all.subspan(i + 1));
            else
                outside_callbacks(op);
            for (side& s : sides_) verify(s);
        }
        run_dry();
        return operations_;
    }

    std::uint64_t fired() const { return fired_; }

private:
    struct thrown_by_callback {};

    struct fire_in_order {
        jiffies tick = tvec::never;
        std::uint64_t number = 0;
    };

    // What the model knows of a wheel whose state was taken.
    struct saved_state {
        tvec::snapshot wheel;
        Oracle due;
        std::array<bool, subjects> linked{};
        std::array<jiffies, subjects> asked{};
        std::array<std::uint64_t, subjects> armed{};
    };

    struct side {
        side(jiffies start, bool shares) {
            make_wheel(start, shares);
            listen(&ears[0]);
        }
        side(const side&) = delete;
        side& operator=(const side&) = delete;

        void make_wheel(jiffies start, bool shares) {
            wheel.reset();
            numbers<typename Interface::number>::prepare(shares);
            wheel = std::make_unique<wheel_type>(start);
            shares_number = shares;
            listening = nullptr;
        }

        struct ear {
            side& of;
        };
        void listen(ear* with) {
            listening = with;
            wheel->on_earlier_wakeup(with ? &hear : nullptr, with);
            // A visitor of a drain who asks for it has to ask again afterwards.
            wakeup = running ? 0 : wheel->next_wakeup().value_or(tvec::never);
        }
        // Outside of `advance` and `drain` only an earlier wake-up is told, and to one.
        static void hear(void* whom) noexcept {
            side& s = static_cast<ear*>(whom)->of;
            const jiffies before =
                std::exchange(s.wakeup, s.wheel->next_wakeup().value_or(tvec::never));
            s.told_in_vain |= whom != s.listening || (!s.running && s.wakeup >= before);
        }

        std::unique_ptr<wheel_type> wheel;
        Oracle due;
        bool shares_number = false;  // with each other wheel of which this is true
        std::array<ear, 2> ears{{{*this}, {*this}}};
        const ear* listening = nullptr;
        bool busy = false;        // a callback or a visitor of this wheel is running
        bool running = false;     // it is advanced or drained
        bool collecting = false;  // no callback is to be called
        bool told_in_vain = false;
        jiffies wakeup =
            tvec::never;  // as a loop knows it that asks after `advance`, and if it is told
        std::optional<fire_in_order> last_in_order;  // in an advance_in_order
        std::optional<saved_state> saved;
    };

    struct subject {
        subject(world& w, int n) : home(&w), id(n) {}
        void on_fire(wheel_type& wheel) {
            expect(!home->side_of(wheel).collecting, "called instead of taken");
            home->fire(id, wheel);
        }
        world* home;
        int id;
        timer_type t{Interface::template call<subject>};
    };

    // A walk that is under way, and what it has to do with each subject yet.
    struct walk {
        enum part : unsigned char { none, to_show, may_show };
        part& part(int id) { return parts[static_cast<std::size_t>(id)]; }
        void end() { parts = {}, ended = true; }
        side& of;
        std::array<enum part, subjects> parts{};
        bool ended = false;  // a visitor has drained the wheel
    };

    class busy {
    public:
        explicit busy(side& s, bool runs)
            : side_(s), was_(std::exchange(s.busy, true)),
              was_running_(std::exchange(s.running, s.running || runs)) {}
        ~busy() {
            side_.busy = was_;
            side_.running = was_running_;
        }
        busy(const busy&) = delete;
        busy& operator=(const busy&) = delete;

    private:
        side& side_;
        bool was_;
        bool was_running_;
    };

    static jiffies start_of(std::uint8_t choice) {
        static const std::vector<jiffies> all = starts();
        return all[choice % all.size()];
    }

    static subject& owner_of(timer_type& t) { return Interface::template owner_of<subject>(t); }
    std::unique_ptr<subject>& at(int id) { return subjects_[static_cast<std::size_t>(id)]; }
    timer_type& timer(int id) { return at(id)->t; }
    side& side_of(const wheel_type& wheel) { return sides_[&wheel != sides_[0].wheel.get()]; }

    template <class... Parts> void note(const Parts&... parts) {
        if (story_ == nullptr) return;
        (detail::print(*story_, parts), ...);
        *story_ << '\n';
    }
    char name_of(const side& s) const { return &s == &sides_[0] ? 'a' : 'b'; }

    // --- scripts --------------------------------------------------------------------------------

    std::size_t set_script(const operation& op, std::span<const operation> rest) {
        const std::size_t length = std::min(op.script_length(), rest.size());
        scripts_[static_cast<std::size_t>(op.subject())] = rest.first(length);
        return length;
    }

    // Runs the script of a callback. Fuel runs out, so that every program ends.
    void run_script(int self) {
        for (const operation& op : scripts_[static_cast<std::size_t>(self)]) {
            if (fuel_ == 0) return;
            --fuel_;
            if (op.action() == verb::fail) return fail();
            perform(op, op.on_self() ? self : op.subject());
        }
    }

    // Without exceptions, it only does nothing more.
    static void fail() {
        if constexpr (Interface::is_whole) throw thrown_by_callback{};
    }

    void outside_callbacks(const operation& op) {
        try {
            perform(op, op.subject());
        } catch (const thrown_by_callback&) {
            diverge("an exception of a callback came from elsewhere than advance or drain");
        }
    }

    // --- operations, each on the wheel and on the model -----------------------------------------

    void perform(const operation& op, int id) {
        ++operations_;
        side& s = sides_[op.on_second_wheel()];
        switch (op.action()) {
        case verb::arm:
            return arm_after(s, id, distance(op, s));
        case verb::push_back:
            return arm_at(s, id, later(timer(id).expires(), distance(op, s)));
        case verb::pull_in:
            return arm_at(s, id,
                          timer(id).expires() - std::min(timer(id).expires(), distance(op, s)));
        case verb::arm_within:
            return arm_within(s, id, later(s.wheel->now(), distance(op, s)), op.offset);
        case verb::arm_next:
            return arm_next(s, id, distance(op, s));
        case verb::arm_if_pending:
            return arm_if_pending(s, id, later(s.wheel->now(), distance(op, s)));
        case verb::arm_unless_pending:
            return arm_unless_pending(s, id, later(s.wheel->now(), distance(op, s)));
        case verb::arm_if_earlier:
            return arm_if_earlier(s, id, later(s.wheel->now(), distance(op, s)));
        case verb::cancel:
            return cancel(id);
        case verb::unlink:
            return unlink(id);
        case verb::destroy:
            return destroy(id);
        case verb::move:
            return move(id);
        case verb::move_onto:
            return move_onto(id, op.offset % subjects);
        default:
            return pass_time(op, s);
        }
    }

    void pass_time(const operation& op, side& s) {
        const jiffies now = s.wheel->now();
        switch (op.action()) {
        case verb::advance:
            return advance(s, later(now, affordable(op, distance(op, s))));
        case verb::advance_some:
            return advance(s, later(now, affordable(op, distance(op, s))), op.budget());
        case verb::advance_watched:
        case verb::advance_in_order:
        case verb::collect:
            return advance_otherwise(op.action(), s, later(now, affordable(op, distance(op, s))),
                                     1 + op.budget());
        case verb::move_ahead:
            return move_ahead(s, op.budget());
        case verb::hop:
            return advance(s, now + affordable(op, s.wheel->next_wakeup().value_or(now) - now));
        case verb::go_back:
            return advance(s, now - std::min<jiffies>(now, 1 + distance(op, s)));
        case verb::drain:
            return drain(s);
        case verb::sweep:
            return sweep(s, op);
        case verb::rebuild:
            return rebuild(s, op);
        case verb::listen:
            return listen(s, op.offset % 4 == 0 ? nullptr : &s.ears[op.offset % 2]);
        case verb::capture:
            return capture(s);
        case verb::restore:
            return restore(s, op);
        default:
            return;  // a script's verbs outside of a script
        }
    }

    jiffies distance(const operation& op, const side& s) {
        return distances_.of(op, s.wheel->now(),
                             [&](unsigned id) { return timer(static_cast<int>(id)).expires(); });
    }

    static jiffies later(jiffies from, jiffies by) {
        return by < tvec::never - from ? from + by : tvec::never;
    }
    // Jumps towards the end of time are rare, for after them little can happen.
    static jiffies affordable(const operation& op, jiffies distance) {
        const bool far = distance >> 34 != 0 && op.what < 224;
        return far ? distance % (jiffies{1} << 22) : distance;
    }

    // A wheel that shares its number cannot tell its timers from those of others that share it.
    bool surely_in(side& s, int id) {
        return s.due.pending(id) && evicted_by(id) == 0 && !s.shares_number;
    }
    bool maybe_in(side& s, int id) {
        const bool shared = sides_[0].shares_number && sides_[1].shares_number;
        const bool pends = s.due.pending(id) ||
                           (shared && (sides_[0].due.pending(id) || sides_[1].due.pending(id)));
        return pends && evicted_by(id) == 0;
    }

    // Takes the timer off both models; returns whether it was pending in either.
    bool forget(int id) {
        evicted_by_[static_cast<std::size_t>(id)] = 0;
        for (walk* w : walks_) w->part(id) = walk::none;
        const bool first = sides_[0].due.cancel(id);
        return sides_[1].due.cancel(id) || first;
    }

    void note_arm(side& s, int id, jiffies at_tick, bool was_pending) {
        const jiffies expected = std::clamp(at_tick, s.wheel->now() + 1, tvec::never);
        const bool stays = surely_in(s, id) && at_tick > s.wheel->now() && at_tick >= asked(id);
        std::vector<walk> before;  // pushed back in its place, it is shown as if it were not armed
        if (stays)
            for (const walk* w : walks_) before.push_back(*w);
        expect(was_pending == forget(id), "arm said was_pending=", was_pending);
        s.due.arm(id, expected);
        for (std::size_t i = 0; i < walks_.size(); ++i) {
            walk& w = *walks_[i];
            if (&w.of == &s && !w.ended) w.part(id) = stays ? before[i].part(id) : walk::may_show;
        }
        asked(id) = std::min(at_tick, tvec::never);
        armed(id) = ++arms_;
        note(name_of(s), ".arm_at(", id, ", ", timer(id).expires(), ") = ", was_pending);
        expect(timer(id).expires() == asked(id), "armed for ", timer(id).expires(), ", asked for ",
               asked(id));
    }

    void arm_after(side& s, int id, jiffies delay) {
        const jiffies target = later(s.wheel->now(), delay);
        note_arm(s, id, target, s.wheel->arm_after(timer(id), delay));
    }

    void arm_at(side& s, int id, jiffies tick) {
        note_arm(s, id, tick, s.wheel->arm_at(timer(id), tick));
    }

    void arm_if_pending(side& s, int id, jiffies tick) {
        const jiffies before = timer(id).expires();
        const bool is_pending = sides_[0].due.pending(id) || sides_[1].due.pending(id);
        const bool was_pending = s.wheel->arm_if_pending(timer(id), tick);
        if (is_pending) return note_arm(s, id, tick, was_pending);
        expect(!was_pending && !timer(id).pending() && timer(id).expires() == before,
               "armed though it was not pending");
    }

    void arm_unless_pending(side& s, int id, jiffies tick) {
        const jiffies before = timer(id).expires();
        const bool is_pending = sides_[0].due.pending(id) || sides_[1].due.pending(id);
        const bool was_pending = s.wheel->arm_unless_pending(timer(id), tick);
        if (!is_pending) return note_arm(s, id, tick, was_pending);
        expect(was_pending && timer(id).expires() == before, "moved though it was pending");
    }

    void arm_if_earlier(side& s, int id, jiffies tick) {
        const bool stays = maybe_in(s, id) && asked(id) <= tick;
        const bool was_pending = s.wheel->arm_if_earlier(timer(id), tick);
        if (!stays) return note_arm(s, id, tick, was_pending);
        expect(was_pending && timer(id).expires() == asked(id), "left an earlier deadline");
    }

    void arm_next(side& s, int id, jiffies period) {
        const bool was_pending = timer(id).pending();
        const jiffies from = timer(id).expires();
        const jiffies reached = later(s.wheel->now(), s.wheel->behind());
        const jiffies missed = s.wheel->arm_next(timer(id), period);
        note(name_of(s), ".arm_next(", id, ", ", period, ") = ", missed);
        const jiffies next = timer(id).expires();
        period = std::max<jiffies>(period, 1);
        expect(next == tvec::never || next > reached, "arm_next chose ", next, ", not after ",
               reached);
        expect(next == tvec::never || (next - from) % period == 0, "off phase: ", next);
        expect(missed == 0 || next == tvec::never || next - period <= reached, "missed ", missed,
               " periods too many");
        note_arm(s, id, next, was_pending);
    }

    void arm_within(side& s, int id, jiffies first, unsigned width) {
        const jiffies earliest = std::clamp(first, s.wheel->now() + 1, tvec::never);
        const jiffies latest = later(first, width % 16 == 0 ? 0 : jiffies{1} << width % 16);
        const jiffies before = asked(id);
        const bool stays = surely_in(s, id) && before >= first && before <= std::max(latest, first);
        const bool was_pending = s.wheel->arm_within(timer(id), first, latest);
        const jiffies chosen = timer(id).expires();
        if (stays && before <= s.wheel->now())  // it is due, and fires where it was
            return expect(was_pending && before == chosen, "put off a timer that is due");
        expect(chosen >= earliest && chosen <= std::max(latest, earliest), chosen,
               " is outside the window ", earliest, "..", latest);
        expect(!stays || before == chosen, "left the window it was in");
        note_arm(s, id, chosen, was_pending);
    }

    void cancel(int id) {
        const bool was_pending = timer(id).cancel();
        note(id, ".cancel() = ", was_pending);
        expect(was_pending == forget(id), "cancel said ", was_pending);
        expect(!timer(id).pending(), "pending after cancel");
    }

    // As C programs use their memory: no destructor runs.
    void unlink(int id) {
        timer_type& t = timer(id);
        const bool was_pending = t.unlink();
        note(id, ".unlink() = ", was_pending);
        expect(was_pending == forget(id), "unlink said ", was_pending);
        std::memset(static_cast<void*>(&t), 0, sizeof t);
        std::construct_at(&t, Interface::template call<subject>);
        asked(id) = 0;
    }

    // The old object's memory must never be read again.
    void destroy(int id) {
        note("destroy ", id);
        forget(id);
        at(id) = std::make_unique<subject>(*this, id);
        asked(id) = 0;
    }

    void move(int id) {
        note("move ", id);
        at(id) = std::make_unique<subject>(std::move(*at(id)));
    }

    void move_onto(int from, int to) {
        note(to, " = move(", from, ")");
        timer(to) = std::move(timer(from));
        if (from == to) return;
        asked(to) = asked(from);
        armed(to) = armed(from);
        forget(to);
        const auto evicted_by = evicted_by_[static_cast<std::size_t>(from)];
        for (walk* w : walks_) w->part(to) = w->part(from);
        for (side& s : sides_)
            if (const auto due = s.due.due(from)) s.due.arm(to, *due);
        expect(timer(to).pending() == forget(from), "moved, and pending otherwise than before");
        expect(!timer(from).pending(), "pending after its place was taken");
        evicted_by_[static_cast<std::size_t>(to)] = evicted_by;
    }

    void rebuild(side& s, const operation& op) {
        if (s.busy) return;
        s.make_wheel(start_of(op.offset), op.shares_number());
        note(name_of(s), " = wheel(", s.wheel->now(),
             op.shares_number() ? "), shares its number" : ")");
        for (int id = 0; id < subjects; ++id) {
            const bool lost = s.due.cancel(id);
            expect(!lost || !timer(id).pending(), "pending in a wheel that is gone");
        }
    }

    void listen(side& s, typename side::ear* with) {
        note(name_of(s), with ? " is listened to" : " is not listened to");
        s.listen(with);
    }

    // --- snapshots ------------------------------------------------------------------------------

    void capture(side& s) {
        if constexpr (Interface::is_whole) {
            if (s.busy) return;
            note("capture ", name_of(s));
            saved_state& saved = s.saved.emplace();
            saved.wheel.capture(*s.wheel, [&](const timer_type& t) {
                const int id = owner_of(const_cast<timer_type&>(t)).id;
                expect(!std::exchange(saved.linked[static_cast<std::size_t>(id)], true), id,
                       " was captured twice");
                return id;
            });
            saved.due = s.due;
            saved.asked = asked_;
            saved.armed = armed_;
        }
    }

    // Puts the state back, into a wheel that has changed or was made anew. Timers that are linked
    // in the other wheel come back. Now and then one is left out.
    void restore(side& s, const operation& op) {
        if constexpr (Interface::is_whole) {
            if (s.busy || !s.saved) return;
            const saved_state& saved = *s.saved;
            const int left_out = op.offset % 4 == 0 ? op.offset / 4 % subjects : -1;
            saved.wheel.restore(*s.wheel, [&](std::uint64_t id) {
                return static_cast<int>(id) == left_out ? nullptr : &timer(static_cast<int>(id));
            });
            note("restore ", name_of(s), ", not ", left_out);
            for (int id = 0; id < subjects; ++id) restore(s, saved, id, id == left_out);
            ++restores_;
            verify_listener(s);
        }
    }

    void restore(side& s, const saved_state& saved, int id, bool is_left_out) {
        const auto i = static_cast<std::size_t>(id);
        s.due.cancel(id);
        if (!saved.linked[i] || is_left_out) return;
        forget(id);
        asked(id) = saved.asked[i];
        armed(id) = saved.armed[i];
        if (const auto due = saved.due.due(id)) s.due.arm(id, *due);
    }

    // --- time -----------------------------------------------------------------------------------

    void advance(side& s, jiffies until, std::size_t budget = TVEC_UNLIMITED) {
        note(name_of(s), ".advance(", until, ", ", budget, ')');
        advance_by(s, until, budget, [&] { return s.wheel->advance(until, budget); });
    }

    void move_ahead(side& s, std::size_t most) {
        if constexpr (Interface::is_whole) {
            const auto before = s.wheel->count();
            const auto wakeup = s.wheel->next_wakeup();
            const jiffies now = s.wheel->now();
            const std::size_t moved = s.wheel->move_ahead(most);
            note(name_of(s), ".move_ahead(", most, ") = ", moved);
            const auto after = s.wheel->count();
            expect(moved == visits(after) - visits(before), "visits told: ", moved);
            expect(moved <= most, "more moves than ", most);
            expect(after.fired == before.fired && s.wheel->now() == now, "moves are no fires");
            expect(moved == 0 || (!s.busy && wakeup > now), "moved while something was due");
            const auto later = s.wheel->next_wakeup();
            expect(!later || (wakeup && *later >= *wakeup), "an earlier wake-up by a move");
        }
    }

    void collect(side& s, jiffies until, std::size_t budget) {
        std::size_t left = 1 + until % 16;
        const auto take = [&](timer_type& t) {
            expect(left-- != 0, "taken after the last");
            fire(owner_of(t).id, *s.wheel);
            return left != 0;
        };
        note(name_of(s), ".collect(", until, ", ", budget, ')');
        const bool was_collecting = std::exchange(s.collecting, !s.busy);
        advance_by(
            s, until, budget, [&] { return s.wheel->collect(until, budget, take); }, left);
        s.collecting = was_collecting;
    }

    // `left`: 0 as soon as the caller has ended the call.
    template <class Call>
    void advance_by(side& s, jiffies until, std::size_t budget, Call call,
                    const std::size_t& left = TVEC_UNLIMITED) {
        if (s.busy) return expect_refusal(s, call);
        const auto before = s.wheel->count();
        const jiffies from = s.wheel->now();
        const auto done = run(s, call);
        const auto after = s.wheel->count();
        expect(after.clock_backward - before.clock_backward == (until < from), "clock_backward");
        expect(visits(after) - visits(before) <= budget, "more visits than ", budget);
        if (!done) return;
        expect(done->fired == after.fired - before.fired, "fired ", done->fired);
        if (done->caught_up) return expect_caught_up(s, std::max(until, from));
        expect(left == 0 || visits(after) - visits(before) == budget, "stopped within its budget");
        expect(s.wheel->next_wakeup() == s.wheel->now(), "work left over, and no wake-up now");
    }

    void advance_otherwise(verb how, side& s, jiffies until, std::size_t budget) {
        if (how == verb::collect)
            collect(s, until, budget);
        else if (how == verb::advance_in_order)
            advance_in_order(s, until, budget);
        else if constexpr (Interface::is_whole)
            advance_watched(s, until, budget);
        else
            advance(s, until, budget);
    }

    void advance_watched(side& s, jiffies until, std::size_t most) {
        note(name_of(s), ".advance_watched(", until, "), at most ", most);
        std::size_t watched = 0;
        const auto call = [&] {
            return s.wheel->advance_watched(until, [&](const auto& fire) {
                ++watched;
                fire();
                return watched < most;
            });
        };
        if (s.busy) return expect_refusal(s, call);
        const jiffies from = s.wheel->now();
        const auto done = run(s, call);
        if (!done) return;
        expect(done->fired == watched && watched <= most, "fired ", done->fired, ", watched ",
               watched, ", and wanted ", most);
        if (done->caught_up) return expect_caught_up(s, std::max(until, from));
        expect(watched == most, "stopped though the watch wanted more");
        expect(s.wheel->next_wakeup() == s.wheel->now(), "work left over, and no wake-up now");
    }

    void advance_in_order(side& s, jiffies until, std::size_t budget) {
        note(name_of(s), ".advance_in_order(", until, ", ", budget, ')');
        const auto in_order = [this](timer_type& a, timer_type& b) {
            return armed(owner_of(a).id) < armed(owner_of(b).id);
        };
        const auto call = [&] { return s.wheel->advance_in_order(until, in_order, budget); };
        if (s.busy) return expect_refusal(s, call);
        const jiffies from = s.wheel->now();
        s.last_in_order.emplace();
        const auto done = run(s, call);
        s.last_in_order.reset();
        if (!done) return;
        if (done->caught_up) return expect_caught_up(s, std::max(until, from));
        expect(s.wheel->next_wakeup() == s.wheel->now(), "work left over, and no wake-up now");
    }

    // In such a call, whether what fires on a tick has been armed one after the other.
    void expect_in_order(side& s, int id) {
        if (!s.last_in_order) return;
        const fire_in_order last = std::exchange(*s.last_in_order, {s.wheel->now(), armed(id)});
        expect(last.tick != s.wheel->now() || last.number < armed(id), id, " overtook its elders");
    }

    template <class Call> void expect_refusal(side& s, Call& call) {
        const jiffies now = s.wheel->now();
        const auto done = call();
        expect(!done.caught_up && done.fired == 0 && s.wheel->now() == now, "re-entered advance");
    }

    template <class F> std::optional<std::invoke_result_t<F&>> run(side& s, F advance) {
        const auto done = try_to(s, advance, true);
        s.wakeup = s.wheel->next_wakeup().value_or(tvec::never);
        if (done) note("  = {", done->fired, ", ", done->caught_up, "}, at ", s.wheel->now());
        return done;
    }

    // Empty if a callback threw.
    template <class F>
    std::optional<std::invoke_result_t<F&>> try_to(side& s, F act, bool runs = false) {
        const busy running(s, runs);
        try {
            return act();
        } catch (const thrown_by_callback&) {
            return std::nullopt;
        }
    }

    template <class Counters> static std::uint64_t visits(const Counters& c) {
        return c.fired + c.moved + c.dropped;
    }

    void expect_caught_up(side& s, jiffies until) {
        until = std::min(until, tvec::never - 1);
        const auto first = s.due.first();
        expect(s.wheel->now() == until, "now ", s.wheel->now(), " after advance to ", until);
        expect(s.wheel->behind() == 0, "behind at rest");
        expect(!first || *first > until, "timer for ", first, " not fired by ", until);
    }

    void fire(int id, wheel_type& wheel) {
        side& s = side_of(wheel);
        ++fired_;
        note("  ", id, " fires at ", wheel.now());
        expect_in_order(s, id);
        const auto due = s.due.due(id);
        const auto first = s.due.first();
        expect(due == wheel.now(), id, " is due at ", due, ", fired at ", wheel.now());
        expect(first == due, "overtook a timer for ", first);
        expect(!timer(id).pending() && timer(id).expires() == asked(id),
               "state inside the callback");
        s.due.cancel(id);
        run_script(id);
        verify(s);
    }

    // --- drain ----------------------------------------------------------------------------------

    void drain(side& s) {
        note(name_of(s), ".drain()");
        const unsigned serial = ++drains_;
        std::size_t waiting = 0, shown = 0;
        for (int id = 0; id < subjects; ++id)
            if (s.due.pending(id) && evicted_by(id) == 0) evicted_by(id) = serial, ++waiting;
        for (walk* w : walks_)
            if (&w->of == &s) w->end();
        const bool finished = try_drain(s, serial, shown);
        std::size_t left = 0;
        for (int id = 0; id < subjects; ++id)
            if (evicted_by(id) == serial) evicted_by(id) = 0, ++left;
        verify_listener(s);
        expect(shown <= waiting, "drain showed ", shown, " of ", waiting);
        expect(!finished || left == 0, "drain has left out ", left);
    }

    bool try_drain(side& s, unsigned serial, std::size_t& shown) {
        const busy draining(s, true);
        const auto visit = [&](timer_type& t) {
            const int id = owner_of(t).id;
            ++shown;
            note("  ", id, " is shown");
            expect(!t.pending(), "shown while pending");
            expect(evicted_by(id) == serial, "shown, but was not to be: ", id);
            forget(id);
            run_script(id);
        };
        try {
            const std::size_t told = s.wheel->drain(visit);
            expect(told == shown, "drain said ", told, " and showed ", shown);
            return true;
        } catch (const thrown_by_callback&) {
            return false;
        }
    }

    // --- sweep ----------------------------------------------------------------------------------

    // The visitor does anything to any timer, runs scripts with further walks and drains, and may
    // throw. Each timer that stays pending and is not armed meanwhile is shown exactly once.
    void sweep(side& s, const operation& op) {
        const std::size_t most = op.offset % 4 == 0 ? 1 + op.offset / 4 : ~std::size_t{0};
        walk w{s};
        for (int id = 0; id < subjects; ++id)
            if (s.due.pending(id) && evicted_by(id) == 0) w.part(id) = walk::to_show;
        walks_.push_back(&w);
        note(name_of(s), ".for_each_pending(), at most ", most);
        std::size_t shown = 0;
        const auto all = try_to(s, [&] {
            return s.wheel->for_each_pending([&](timer_type& t) {
                const int id = owner_of(t).id;
                expect(&t == &timer(id) && s.due.pending(id) && evicted_by(id) == 0,
                       "shown, and not pending: ", id);
                expect(w.part(id) == walk::to_show || w.part(id) == walk::may_show, id,
                       " was shown, and was not to be");
                w.part(id) = walk::none;
                note("  ", id, " is shown");
                treat(s, op, id, shown);
                verify(s);
                return ++shown < most;
            });
        });
        walks_.pop_back();
        if (!all) return;
        expect(*all == (shown < most), "a walk ended after ", shown, " and said ", *all);
        for (int id = 0; id < subjects; ++id)
            expect(!*all || w.part(id) != walk::to_show, id, " was not shown");
    }

    void treat(side& s, operation op, int shown, std::size_t n) {
        const int other = static_cast<int>((op.who + 7 * n + op.offset) % subjects);
        op.span = static_cast<std::uint8_t>(op.span + 16 * n);
        switch ((op.offset / 4 + n) % 13) {
        case 0:
            return arm_after(s, other, distance(op, s));
        case 1:
            return arm_after(s, shown, distance(op, s));
        case 2:
            return cancel(other);
        case 3:
            return unlink(other);
        case 4:
            return move(other);
        case 5:
            return move_onto(other, shown);
        case 6:
            return move_onto(shown, other);
        case 7:  // as a connection with two timers does
            destroy(other);
            return destroy(shown);
        case 8:
            return move(shown);
        case 9:
            return walks_.size() < 3 ? sweep(s, op) : void();
        case 10:
            return op.who % 4 == 0 ? drain(s) : advance(s, s.wheel->now() + 1);
        default:
            return run_script(shown);
        }
    }

    // The tick that the subject was last armed for, however long it had passed.
    jiffies& asked(int id) { return asked_[static_cast<std::size_t>(id)]; }

    // The number of the arm that armed the subject last.
    std::uint64_t& armed(int id) { return armed_[static_cast<std::size_t>(id)]; }

    // The call of drain that has taken the subject out and not shown it yet, or 0.
    unsigned& evicted_by(int id) { return evicted_by_[static_cast<std::size_t>(id)]; }

    // --- what must hold after every operation ---------------------------------------------------

    void verify(side& s) {
        if (drains_under_way()) return;  // the model counts what is evicted, the wheel does not
        const auto first = s.due.first();
        const auto wakeup = s.wheel->next_wakeup();
        expect(!first || (wakeup && *wakeup <= *first), "wake-up at ", wakeup, ", expiry at ",
               first);
        expect(!wakeup || *wakeup >= s.wheel->now(), "wake-up in the past: ", wakeup);
        verify_listener(s);
        if (++verified_ % check_every_ == 0) verify_thoroughly(s);
    }

    void verify_listener(side& s) {
        expect(!s.told_in_vain, "told of no earlier wake-up, or one who does not listen");
        if (s.running) return;
        const jiffies known = std::exchange(s.wakeup, s.wheel->next_wakeup().value_or(tvec::never));
        expect(!s.listening || s.wakeup >= known, "not told that the wake-up moved from ", known,
               " to ", s.wakeup);
    }

    bool drains_under_way() const {
        return std::any_of(evicted_by_.begin(), evicted_by_.end(), [](unsigned n) { return n; });
    }

    void verify_thoroughly(side& s) {
        expect(s.wheel->next_expiry() == s.due.first(), "next_expiry");
        const std::size_t pending = s.wheel->count_pending();
        expect(pending == s.due.size(), pending, " pending, not ", s.due.size());
        expect(s.wheel->any_pending() == (pending != 0), pending, " pending, and any is not");
        const std::string fault = check(*s.wheel);
        expect(fault.empty(), fault);
        const auto& did = s.wheel->count();
        note(name_of(s), " at ", s.wheel->now(), " wakes at ", s.wheel->next_wakeup(), ", has ",
             pending, ", fired ", did.fired, ", moved ", did.moved, ", dropped ", did.dropped,
             ", back ", did.clock_backward);
    }

    // Nothing may be left behind: hops from wake-up to wake-up until both wheels are empty. Each
    // place that a timer was ever linked to costs a wake-up for each level at most.
    void run_dry() {
        fuel_ = 0;
        for (side& s : sides_) {
            const std::uint64_t enough =
                (operations_ + (1 + restores_) * subjects) * (tvec::detail::geometry::levels + 1);
            for (std::uint64_t hops = 0; const auto wakeup = s.wheel->next_wakeup(); ++hops) {
                expect(hops <= enough, "more wake-ups than timers could ask for");
                advance(s, *wakeup);
            }
            expect(!s.due.first(), "timer left when no wake-up is: ", s.due.first());
            verify_thoroughly(s);
        }
    }

    const program& program_;
    unsigned check_every_;
    std::ostream* story_;
    std::uint64_t fuel_;
    std::uint64_t operations_ = 0;
    std::uint64_t fired_ = 0;
    std::uint64_t verified_ = 0;
    std::uint64_t restores_ = 0;
    unsigned drains_ = 0;
    std::vector<walk*> walks_;  // under way, the innermost last
    distances distances_;
    std::array<side, 2> sides_;
    std::array<std::unique_ptr<subject>, subjects> subjects_;
    std::array<std::span<const operation>, subjects> scripts_;
    std::array<unsigned, subjects> evicted_by_{};
    std::array<jiffies, subjects> asked_{};
    std::array<std::uint64_t, subjects> armed_{};
    std::uint64_t arms_ = 0;
};

struct tally {
    std::uint64_t operations = 0;
    std::uint64_t fired = 0;
};

// Runs a program, and returns each call with its answer. A divergence says the last ones.
template <class Oracle, class Interface = in_cpp>
std::string told(const program& p, unsigned check_every, tally& done) {
    std::ostringstream story;
    story << std::boolalpha;
    try {
        world<Oracle, Interface> all(p, check_every, &story);
        done.operations += all.run();
        done.fired += all.fired();
    } catch (const divergence& e) {
        diverge(e.what(), ", after\n", last_lines(story.str()));
    }
    return story.str();
}

// Runs a program.
template <class Oracle> void run(const program& p, unsigned check_every, tally& done) {
    try {
        world<Oracle> all(p, check_every);
        done.operations += all.run();
        done.fired += all.fired();
    } catch (const divergence&) {
        told<Oracle>(p, check_every, done);
        throw;
    }
}

}  // namespace support
