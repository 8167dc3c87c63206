#include "tvec/tvec_durable.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "open_by_name.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/durable/timers.hpp"

namespace durable = tvec::durable;
namespace operations = durable::operations;
using durable::completion, durable::refusal, durable::standing;

namespace {

// Timers of the wheel that fire in one turn.
constexpr std::size_t in_a_turn = 1024;

durable::time_point point(tvec_durable_ms due) {
    return durable::time_point(durable::duration(due));
}
tvec_durable_ms ms(durable::time_point due) { return due.time_since_epoch().count(); }

std::string bytes(const void* at, std::size_t length) {
    assert((at || length == 0) && "bytes have an address");
    return length == 0 ? std::string() : std::string(static_cast<const char*>(at), length);
}

// Writes a text as snprintf does.
std::size_t write(std::string_view text, char* memory, std::size_t size) {
    assert((memory || size == 0) && "memory for the text");
    if (size == 0) return text.size();
    const std::size_t n = std::min(text.size(), size - 1);
    std::memcpy(memory, text.data(), n);
    memory[n] = '\0';
    return text.size();
}

// Structs of later versions are smaller than this: a larger size has not been set.
constexpr std::size_t largest_struct = 4096;

// Returns whether the caller has set the size of its struct. A program of an older version has at
// least the members in `least` bytes. Those that only a later version knows must be 0.
template <class Struct> bool is_known(const Struct* given, std::size_t least) {
    assert(given && "a struct");
    const std::size_t size = given->size;
    if (size < least || size > largest_struct || size % alignof(Struct) != 0) return false;
    const auto* const at = reinterpret_cast<const unsigned char*>(given);
    return std::all_of(at + std::min(size, sizeof(Struct)), at + size,
                       [](unsigned char byte) { return byte == 0; });
}

// Returns a struct of the caller, which may be that of another version. Members that it lacks are
// 0.
template <class Struct> Struct known(const Struct* given) {
    Struct all{};
    std::memcpy(&all, given, std::min(given->size, sizeof all));
    return all;
}

// --- codes --------------------------------------------------------------------------------------

int code(refusal r) {
    switch (r) {
    case refusal::none:
        return TVEC_DURABLE_ACCEPTED;
    case refusal::bad_id:
        return TVEC_DURABLE_BAD_ID;
    case refusal::body_too_large:
        return TVEC_DURABLE_BODY_TOO_LARGE;
    case refusal::bad_due:
        return TVEC_DURABLE_BAD_DUE;
    case refusal::bad_period:
        return TVEC_DURABLE_BAD_PERIOD;
    case refusal::bad_plan:
        return TVEC_DURABLE_BAD_PLAN;
    case refusal::bad_lease:
        return TVEC_DURABLE_BAD_LEASE;
    case refusal::too_many:
        return TVEC_DURABLE_TOO_MANY;
    case refusal::stopping:
        return TVEC_DURABLE_STOPPING;
    }
    std::abort();
}

int code(durable::put_result r) {
    switch (r) {
    case durable::put_result::stored:
        return TVEC_DURABLE_STORED;
    case durable::put_result::there_already:
        return TVEC_DURABLE_THERE_ALREADY;
    case durable::put_result::dead:
        return TVEC_DURABLE_DEAD;
    case durable::put_result::unknown:
        return TVEC_DURABLE_UNKNOWN;
    case durable::put_result::failed:
        return TVEC_DURABLE_FAILED;
    }
    std::abort();
}

// Returns the code of the answer to an operation on one timer: `success` for the first value.
template <class Result> int code(Result r, int success) {
    if constexpr (requires { Result::had_begun; })
        if (r == Result::had_begun) return TVEC_DURABLE_HAD_BEGUN;
    if (r == Result::unknown_id) return TVEC_DURABLE_UNKNOWN_ID;
    if (r == Result::unknown) return TVEC_DURABLE_UNKNOWN;
    return r == Result{} ? success : TVEC_DURABLE_FAILED;
}

int code(standing s) { return s == standing::done ? TVEC_DURABLE_DONE : TVEC_DURABLE_UNKNOWN; }
int code(bool was_current) { return was_current ? TVEC_DURABLE_DONE : TVEC_DURABLE_STALE; }

// Returns the negative errno value of an error of any kind.
int code(const std::exception& e) {
    if (const auto* const s = dynamic_cast<const std::system_error*>(&e))
        return s->code().value() == 0 ? -EIO : -s->code().value();
    return dynamic_cast<const std::bad_alloc*>(&e) ? -ENOMEM : -EINVAL;
}

// --- callbacks ----------------------------------------------------------------------------------

// Returns a completion that calls a function of the program with the code of the answer.
template <class Answer> completion<Answer> calling(tvec_durable_then then, void* user) {
    if (then == nullptr) return {};
    return [=](Answer a) { then(user, code(a)); };
}

void show_to(tvec_durable_show show, void* user, const durable::stored_timer& t) {
    if (show == nullptr) return;
    const tvec_durable_timer shown{t.id.data(),     t.id.size(),      ms(t.due),
                                   t.every.count(), t.body.data(),    t.body.size(),
                                   t.plan.data(),   t.plan.size(),    t.attempt,
                                   t.ended,         t.history.data(), t.history.size()};
    show(user, &shown);
}

// A descriptor that is readable when one of several is.
class any_of {
public:
    any_of(int first, int second) : fd_(epoll_create1(EPOLL_CLOEXEC)) {
        if (fd_ < 0 || !add(first) || !add(second)) {
            const int error = errno;
            if (fd_ >= 0) close(fd_);
            throw std::system_error(error, std::generic_category(), "epoll");
        }
    }
    ~any_of() { close(fd_); }
    any_of(const any_of&) = delete;
    any_of& operator=(const any_of&) = delete;
    int fd() const noexcept { return fd_; }

private:
    bool add(int fd) const {
        epoll_event readable{};
        readable.events = EPOLLIN;
        return epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &readable) == 0;
    }

    int fd_;
};

// Returns the options of the caller. Throws if one is wrong.
tvec_durable_options checked(const tvec_durable_options* given) {
    if (!is_known(given, offsetof(tvec_durable_options, claim_lease)))
        throw std::invalid_argument(
            "tvec_durable_options::size is " + std::to_string(given->size) +
            ": set it to sizeof(struct tvec_durable_options), and members without a value to 0");
    const tvec_durable_options o = known(given);
    if (o.store == nullptr)
        throw std::invalid_argument("tvec_durable_options::store is null: it must be a name");
    if (o.handler == nullptr)
        throw std::invalid_argument("tvec_durable_options::handler is null: it must be a function");
    return o;
}

durable::options settings_of(const tvec_durable_options& o) {
    durable::options s;
    if (o.claim_lease != 0) s.claim_lease = durable::duration(o.claim_lease);
    s.attempts = o.attempts;
    if (o.default_plan) s.default_plan = o.default_plan;
    return s;
}

}  // namespace

struct tvec_durable {
    explicit tvec_durable(const tvec_durable_options& o)
        : store(durable::c::open_by_name(o.store)), handler(o.handler), user(o.user),
          timers(
              wheel, *store, [this](const durable::delivery& d) { deliver(d); }, settings_of(o)) {
        alarm.rearm();
    }

    void deliver(const durable::delivery& d) const {
        const tvec_durable_delivery given{d.token.id.data(), d.token.id.size(), d.token.attempt,
                                          ms(d.due),         d.every.count(),   d.body.data(),
                                          d.body.size()};
        handler(user, &given);
    }

    void run() {
        alarm.acknowledge();
        wheel.run(in_a_turn);
        timers.run();
        alarm.rearm();
    }

    // Sets the alarm after a call, which may have armed a timer of the wheel.
    int after(refusal r) {
        alarm.rearm();
        return code(r);
    }

    // Begins an operation on one timer. `then` receives `success` if the timer has changed.
    template <class Operation>
    int change(Operation o, int success, tvec_durable_then then, void* with) {
        if (then) o.then = [=](auto r) { then(with, code(r, success)); };
        return after(timers.submit(std::move(o)));
    }

    tvec::clocked_wheel<> wheel;
    tvec::timerfd_alarm<tvec::clocked_wheel<>> alarm{wheel};
    std::unique_ptr<durable::store> store;
    tvec_durable_handler handler;
    void* user;
    durable::timers<> timers;
    any_of both{alarm.fd(), store->fd()};
};

// --- an object ----------------------------------------------------------------------------------

int tvec_durable_open(tvec_durable** to, const tvec_durable_options* options, char* text,
                      size_t size) try {
    assert(to && "a place for the object");
    *to = new tvec_durable(checked(options));
    return 0;
} catch (const std::exception& e) {
    write(e.what(), text, size);
    return code(e);
}

void tvec_durable_close(tvec_durable* d) { delete d; }

int tvec_durable_fd(const tvec_durable* d) { return d->both.fd(); }

int tvec_durable_run(tvec_durable* d) try {
    d->run();
    return 0;
} catch (const std::exception& e) {
    return code(e);
}

tvec_durable_ms tvec_durable_now(const tvec_durable* d) { return ms(d->timers.now()); }

size_t tvec_durable_failure(const tvec_durable* d, char* memory, size_t size) {
    return write(d->store->last_failure(), memory, size);
}

const char* tvec_durable_text(int refusal_code) {
    for (const refusal r : {refusal::none, refusal::bad_id, refusal::body_too_large,
                            refusal::bad_due, refusal::bad_period, refusal::too_many,
                            refusal::stopping, refusal::bad_plan, refusal::bad_lease})
        if (code(r) == refusal_code) return durable::to_text(r);
    if (refusal_code == TVEC_DURABLE_BAD_SIZE)
        return "the size of the struct is not set, or a later member is not 0";
    return "no refusal of this version";
}

// --- calls --------------------------------------------------------------------------------------

int tvec_durable_put(tvec_durable* d, const tvec_durable_record* timer, tvec_durable_existing how,
                     tvec_durable_then then, void* user) {
    if (!is_known(timer, offsetof(tvec_durable_record, every))) return TVEC_DURABLE_BAD_SIZE;
    const tvec_durable_record r = known(timer);
    durable::record all{bytes(r.id, r.id_length), point(r.due), bytes(r.body, r.body_length),
                        durable::duration(r.every), bytes(r.plan, r.plan_length)};
    return d->after(d->timers.put(std::move(all), static_cast<durable::existing>(how),
                                  calling<durable::put_result>(then, user)));
}

int tvec_durable_cancel(tvec_durable* d, const char* id, size_t id_length, tvec_durable_then then,
                        void* user) {
    return d->change(operations::cancel{bytes(id, id_length)}, TVEC_DURABLE_CANCELLED, then, user);
}

int tvec_durable_done(tvec_durable* d, const char* id, size_t id_length, uint32_t attempt,
                      tvec_durable_then then, void* user) {
    d->timers.done({bytes(id, id_length), attempt}, calling<bool>(then, user));
    return d->after(refusal::none);
}

int tvec_durable_again(tvec_durable* d, const char* id, size_t id_length, uint32_t attempt,
                       tvec_durable_ms due, tvec_durable_then then, void* user) {
    return d->after(
        d->timers.again({bytes(id, id_length), attempt}, point(due), calling<bool>(then, user)));
}

int tvec_durable_fail(tvec_durable* d, const char* id, size_t id_length, uint32_t attempt,
                      const char* reason, size_t reason_length, tvec_durable_then then,
                      void* user) {
    d->timers.failed({bytes(id, id_length), attempt}, bytes(reason, reason_length),
                     calling<bool>(then, user));
    return d->after(refusal::none);
}

int tvec_durable_extend(tvec_durable* d, const char* id, size_t id_length, uint32_t attempt,
                        tvec_durable_ms lease, tvec_durable_then then, void* user) {
    const auto answer = [=](standing how, bool was_current) {
        if (then) then(user, how == standing::done ? code(was_current) : code(how));
    };
    return d->after(
        d->timers.extend({bytes(id, id_length), attempt}, durable::duration(lease), answer));
}

int tvec_durable_touch(tvec_durable* d, const char* id, size_t id_length, tvec_durable_ms due,
                       tvec_durable_then then, void* user) {
    return d->change(operations::touch{bytes(id, id_length), point(due)}, TVEC_DURABLE_TOUCHED,
                     then, user);
}

int tvec_durable_revive(tvec_durable* d, const char* id, size_t id_length, tvec_durable_ms due,
                        tvec_durable_then then, void* user) {
    return d->change(operations::revive{bytes(id, id_length), point(due)}, TVEC_DURABLE_REVIVED,
                     then, user);
}

int tvec_durable_find(tvec_durable* d, const char* id, size_t id_length, tvec_durable_show show,
                      tvec_durable_then then, void* user) {
    const auto answer = [=](standing how, const std::optional<durable::stored_timer>& t) {
        if (t) show_to(show, user, *t);
        const bool is_missing = how == standing::done && !t;
        if (then) then(user, is_missing ? TVEC_DURABLE_UNKNOWN_ID : code(how));
    };
    return d->after(d->timers.find(bytes(id, id_length), answer));
}

int tvec_durable_list(tvec_durable* d, tvec_durable_set set, tvec_durable_ms due, const char* id,
                      size_t id_length, const char* prefix, size_t prefix_length, size_t limit,
                      tvec_durable_show show, tvec_durable_then then, void* user) {
    const auto answer = [=](standing how, const std::vector<durable::stored_timer>& page) {
        for (const durable::stored_timer& t : page) show_to(show, user, t);
        if (then) then(user, code(how));
    };
    return d->after(d->timers.list(static_cast<durable::timer_set>(set),
                                   {point(due), bytes(id, id_length)}, limit, answer,
                                   bytes(prefix, prefix_length)));
}

int tvec_durable_count(tvec_durable* d, tvec_durable_counted then, void* user) {
    const auto answer = [=](standing how, const durable::totals& t) {
        const tvec_durable_totals n{t.waiting, t.dead, t.damaged};
        if (then) then(user, code(how), &n);
    };
    return d->after(d->timers.count(answer));
}

void tvec_durable_stop(tvec_durable* d, tvec_durable_ms at_most, tvec_durable_then then,
                       void* user) {
    const auto answer = [=](const durable::unfinished& u) {
        if (then) then(user, u.any() ? TVEC_DURABLE_UNKNOWN : TVEC_DURABLE_DONE);
    };
    d->timers.stop(answer, durable::duration(at_most));
    d->after(refusal::none);
}
