#include "client.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <system_error>
#include <utility>

#include "functions.hpp"
#include "server_facts.hpp"

namespace tvec::durable::redis {

namespace {

using std::chrono::steady_clock;

constexpr duration slowest_guide{1'000};
constexpr std::size_t full_flight = 16'384;

[[noreturn]] void fail(std::errc code, const std::string& what) { trouble(code, what).raise(); }

redis_options checked(redis_options o) {
    if (o.name.empty() || o.name.size() > 200 || o.name.find_first_of("{}") != o.name.npos)
        fail(std::errc::invalid_argument, "a name is 1 to 200 bytes, and no braces");
    if (o.shards == 0 || o.shards >= 10'000)
        fail(std::errc::invalid_argument, "shards are 1 to 9999");
    const auto check = [](const char* option, duration d, duration least) {
        detail::require_duration("redis_store", std::string("redis_options::") + option, d, least);
    };
    check("claim_ahead", o.claim_ahead, duration(0));
    check("silence", o.silence, duration(1));
    check("slowest", o.slowest, duration(1));
    check("look_again", o.look_again, duration(1));
    check("replica_limit", o.replica_limit, duration(1));
    if (o.replica_limit >= o.silence)
        fail(std::errc::invalid_argument,
             "redis_options::replica_limit is not less than silence: expected less");
    if (o.max_unsent_bytes < 2 * largest_body)
        fail(std::errc::invalid_argument, "redis_options::max_unsent_bytes is " +
                                              std::to_string(o.max_unsent_bytes) +
                                              ": expected 2 MiB or more, for the largest body");
    return o;
}

bool is_error(const redisReply& r) { return r.type == REDIS_REPLY_ERROR; }

// Returns true if a function failed while it ran. Its error names a place in the script then.
bool has_begun(std::string_view error) { return error.find(" script: ") != error.npos; }

// Returns true for an error of a server that has changed since the greeting.
bool is_changed(std::string_view error) {
    return error.starts_with("READONLY") || error.starts_with("LOADING") ||
           error.starts_with("NOAUTH") || error.starts_with("ERR Function not found");
}

}  // namespace

std::errc code_of(std::string_view error) {
    for (const std::string_view word : {"NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid"})
        if (error.starts_with(word)) return std::errc::permission_denied;
    if (error.starts_with("LOADING")) return std::errc::resource_unavailable_try_again;
    return std::errc::not_supported;
}

client::client(redis_options o, part p, std::vector<address> at, faults& f)
    : options_(checked(std::move(o))), part_(p), faults_(f),
      me_(options_.name + ':' + detail::name_of_process(options_.terms)), maker_(getpid()),
      epoll_(open_epoll()), addresses_(std::move(at)), seeds_(addresses_.size()),
      at_(addresses_.front()),
      talk_(epoll_, options_,
            {[this] { greet(); }, [this](reply_ptr r) { on_reply(std::move(r)); },
             [this](trouble why) { on_lost(std::move(why)); }, [this] { on_heard(); }}),
      hints_(epoll_, options_,
             {[this] {
                  if (has_credentials()) hints_.send(credentials().text());
                  hints_.send(command{"SUBSCRIBE", me_}.text());
              },
              [this](reply_ptr r) { on_message(*r); }, [this](const trouble&) { retry(); }}),
      opening_(options_.name, options_.shards,
               {[this](std::optional<unsigned>, const command& c, greeted then) {
                    say(c, std::move(then));
                },
                [this](long long us) { learn(us); },
                [this](std::errc code, std::string why) {
                    on_lost({code, std::move(why)});
                },
                [this] {
                    if (!is_ready_) on_ready();
                }}) {
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.fd = alarm_.fd();
    epoll_ctl(epoll_, EPOLL_CTL_ADD, alarm_.fd(), &e);
}

client::~client() { close(epoll_); }

bool client::is_ours() const noexcept { return getpid() == maker_; }

bool client::is_idle() const noexcept {
    return std::ranges::all_of(pending_, &pending::is_greeting) && waiting_.empty() &&
           held_.empty() && refused_.empty();
}

void client::listen(std::function<void(std::string_view)> hint, std::function<void()> ready) {
    hint_ = std::move(hint);
    ready_ = std::move(ready);
}

void client::try_also(const std::vector<address>& others) {
    addresses_.resize(seeds_);
    addresses_.insert(addresses_.end(), others.begin(), others.end());
}

// --- connecting ---------------------------------------------------------------------------------

// Tries the addresses one after another.
void client::wait_until_ready() {
    auto limit = steady_clock::now() + options_.silence;
    connect();
    for (std::size_t tried = 1; !is_ready_; receive()) {
        flush();
        if (trouble_ && tried < addresses_.size() && trouble_->code != std::errc::timed_out) {
            ++tried;
            retry_.cancel();
            trouble_.reset();
            connect();
        }
        if (trouble_) trouble_->at(place()).raise();
        if (opening_.is_upgrading()) limit = steady_clock::now() + options_.silence;
        const auto left = std::chrono::ceil<duration>(limit - steady_clock::now());
        if (left <= duration::zero()) fail(std::errc::timed_out, place() + ": it does not answer");
        pollfd ready{epoll_, POLLIN, 0};
        poll(&ready, 1, static_cast<int>(left.count()));
    }
}

void client::connect() {
    at_ = addresses_[next_address_++ % addresses_.size()];
    const int error = talk_.open(at_);
    if (error != 0) return on_lost(trouble(error));
    wheel_.arm_after(silence_, options_.silence);
}

// Backs off exponentially, with jitter: not all processes try at once.
void client::retry() {
    if (retry_.pending()) return;
    const auto most = is_guide_ ? std::min(slowest_guide, options_.slowest) : options_.slowest;
    wheel_.arm_after(retry_, back_off_.next(most));
}

void client::try_again() {
    if (talk_.is_closed()) return connect();
    const bool wants_hints = is_ready_ && part_ == part::seed && hints_.is_closed();
    if (wants_hints && hints_.open(at_) != 0) retry();
}

void client::on_silence() {
    talk_.close();
    on_lost({std::errc::timed_out, "it does not answer"});
}

void client::on_heard() {
    if (silence_.pending()) wheel_.arm_after(silence_, options_.silence);
}

void client::on_lost(trouble why) {
    if (is_ready_) ++faults_.broken[detail::reason_of(why.code)];
    talk_.close();
    hints_.close();
    silence_.cancel();
    look_.cancel();
    is_ready_ = false;
    faults_.last = place() + ": " + why.text();
    trouble_ = std::move(why);
    retry();
    abandon();
}

// Commands in flight may have been done or not.
void client::abandon() {
    const auto unanswered = std::exchange(pending_, {});
    const auto unsafe = std::exchange(held_, {});
    const auto unsent = std::exchange(waiting_, {});
    unsent_.clear();
    flights_ = 0;
    for (const held& h : unsafe) h.then(fate::lost, nullptr);
    for (const pending& p : unanswered)
        if (!p.is_greeting) p.then(fate::lost, nullptr);
    for (const pending& p : unsent) p.then(fate::refused, nullptr);
}

// --- the greeting -------------------------------------------------------------------------------

// A user without a password logs in as well: without, it would be `default`.
bool client::has_credentials() const {
    return !options_.user.empty() || !options_.password.empty();
}

command client::credentials() const {
    command c{"AUTH"};
    if (!options_.user.empty()) c.add(options_.user);
    return c.add(options_.password);
}

// Passes the reply to `then`, also if it is an error.
void client::try_to_say(const command& c, greeted then) {
    talk_.send(c.text());
    pending_.push_back({[then = std::move(then)](fate, const redisReply* r) { then(*r); },
                        steady_clock::now(), true, false});
}

// Passes the reply to `then`. An error ends this connection.
void client::say(const command& c, greeted then) {
    try_to_say(c, [this, then = std::move(then)](const redisReply& r) {
        if (!is_error(r)) return then(r);
        const std::string why(text_of(r));
        on_lost({code_of(why), why});
    });
}

void client::greet() {
    if (has_credentials()) say(credentials(), [](const redisReply&) {});
    ask_facts();
    try_to_say({"FCALL", "tvec_durable_version", "0"},
               [this](const redisReply& r) { on_version(r); });
}

void client::ask_facts() {
    say({"INFO"}, [this](const redisReply& r) { info_ = text_of(r); });
    try_to_say({"CONFIG", "GET", "appendfsync"}, [this](const redisReply& r) {
        fields f(r);
        f.text();
        appendfsync_ = f.text();
        if (is_ready_) accept();
    });
    if (part_ == part::primary) ask_time();
}

// The time of a cluster is that of all primaries, also of those that are asked for nothing else.
void client::ask_time() {
    say({"TIME"}, [this](const redisReply& r) {
        fields f(r);
        const long long seconds = f.number(), us = f.number();
        f.is_whole() ? learn(seconds * 1'000'000 + us) : protest();
    });
}

// Returns true if the server can be trusted with timers. Leaves any other.
bool client::accept() {
    verdict v = judge(info_, appendfsync_);
    if (!v.refusal.empty()) {
        on_lost({v.code, v.refusal});
        return false;
    }
    warning_ = std::move(v.warning);
    return true;
}

// Checks the settings and the role of the server, which change while it runs. Opens the set again:
// its data may have been deleted, and made anew by a process with another number of shards.
void client::look_again() {
    wheel_.arm_after(look_, options_.look_again);
    if (is_guide_) return ask_map();
    ask_facts();
    if (part_ == part::seed && !opening_.is_upgrading()) opening_.begin();
}

void client::on_version(const redisReply& r) {
    if (part_ == part::seed && (is_guide_ || is_in_cluster(info_))) return guide();
    if (!accept()) return;
    const long long version = r.type == REDIS_REPLY_INTEGER ? r.integer : 0;
    if (version > functions_version)
        return on_lost({std::errc::not_supported,
                        "its functions are of version " + std::to_string(version) +
                            ", and this program knows " + std::to_string(functions_version)});
    if (version == functions_version) return on_functions();
    load_functions(version);
}

// Another user than that of a service may have the right to load them.
void client::load_functions(long long found) {
    try_to_say({"FUNCTION", "LOAD", "REPLACE", functions}, [this, found](const redisReply& r) {
        if (!is_error(r)) return on_functions();
        const std::string why(text_of(r));
        on_lost({code_of(why), why + ": its functions are of version " + std::to_string(found) +
                                   " (0: none), expected " + std::to_string(functions_version) +
                                   ": load them by `tvec-timers install` as a user who may"});
    });
}

// The set of timers is opened here, or by the cluster.
void client::on_functions() { part_ == part::seed ? opening_.begin() : on_ready(); }

// A guide needs no functions, and may be a replica.
void client::guide() {
    if (was_ready_ && is_guide_ != is_in_cluster(info_))
        return on_lost(
            {std::errc::not_supported, "it has joined or left its cluster: restart the program"});
    is_guide_ = true;
    request_map();
}

void client::ask_map() {
    if (is_ready_) request_map();
}

// A node that the rest of the cluster does not reach is not believed.
void client::request_map() {
    say({"CLUSTER", "INFO"}, [this](const redisReply& r) {
        if (!text_of(r).starts_with("cluster_state:ok"))
            on_lost({std::errc::resource_unavailable_try_again, "the cluster is down"});
    });
    say({"CLUSTER", "SLOTS"}, [this](const redisReply& r) { on_map(r); });
}

void client::on_map(const redisReply& r) {
    auto map = slot_map::parsed(r, at_.host);
    if (!map)
        return on_lost({std::errc::protocol_error, "its map of slots is not as it should be"});
    map_ = std::move(map);
    if (!is_ready_) return on_ready();
    if (ready_) ready_();
}

void client::on_ready() {
    is_ready_ = was_ready_ = true;
    trouble_.reset();
    back_off_.reset();
    wheel_.arm_after(look_, options_.look_again);
    try_again();
    if (ready_) ready_();
}

// --- asking and answers -------------------------------------------------------------------------

void client::ask(const command& c, answer then) {
    const std::string text = c.text();
    if (is_ready_ && talk_.unsent() + unsent_.size() + text.size() <= options_.max_unsent_bytes) {
        unsent_ += text;
        waiting_.push_back({std::move(then), steady_clock::now(), false, false});
        return touch();
    }
    if (is_ready_)
        faults_.last = std::to_string(options_.max_unsent_bytes) +
                       " bytes wait to be sent: the server is "
                       "slower than what is asked of it";
    refuse(std::move(then));
}

void client::refuse(answer then) {
    refused_.push_back(std::move(then));
    touch();
}

void client::touch(std::size_t waiting) {
    if (!may_send(waiting)) return;  // an answer will make it readable
    if (is_ready_ && refused_.empty()) return talk_.send({});
    wheel_.arm_after(soon_, duration::zero());
    alarm_.rearm();
}

void client::learn(long long us) {
    clock_.learn(reading(std::chrono::microseconds(us)), asked_, steady_clock::now());
}

void client::protest() { faults_.last = place() + ": an answer is not as it should be"; }

void client::on_reply(reply_ptr r) {
    if (pending_.empty())
        return on_lost({std::errc::protocol_error, "it answers what was not asked"});
    const pending p = std::move(pending_.front());
    pending_.pop_front();
    if (pending_.empty())
        silence_.cancel();
    else
        wheel_.arm_after(silence_, options_.silence);
    asked_ = p.asked;
    assert((!p.ends_flight || flights_ > 0) && "every flight ends once");
    if (p.ends_flight) --flights_;
    if (p.is_greeting) return p.then(fate::replied, r.get());
    if (options_.wait_replicas == 0 || is_followed(*r)) return give(p.then, *r);
    held_.push_back({p.then, std::move(r), p.asked});
}

// Returns true if the command was not done, and will be asked of another node or later.
bool client::is_followed(const redisReply& r) const {
    return part_ == part::primary && is_error(r) && is_redirection(text_of(r));
}

// Passes a reply on. An error becomes a fate.
void client::give(const answer& then, const redisReply& r) {
    if (!is_error(r)) return then(fate::replied, &r);
    const std::string_view why = text_of(r);
    if (!is_followed(r)) faults_.last = place() + ": " + std::string(why);
    then(has_begun(why) ? fate::lost : fate::refused, &r);
    if (is_changed(why)) on_lost({code_of(why), std::string(why)});
}

void client::wait_for_replicas() {
    say({"WAIT", std::to_string(options_.wait_replicas),
         std::to_string(options_.replica_limit.count())},
        [this](const redisReply& r) { on_replicas(r); });
}

// Writes that the replicas lack may be lost with the primary.
void client::on_replicas(const redisReply& r) {
    const bool is_safe = r.type == REDIS_REPLY_INTEGER && r.integer >= options_.wait_replicas;
    if (!is_safe)
        faults_.last = place() + ": too few replicas have what was written: wait_replicas is " +
                       std::to_string(options_.wait_replicas);
    const auto all = std::exchange(held_, {});
    for (const held& h : all) {
        asked_ = h.asked;
        is_safe ? give(h.then, *h.reply) : h.then(fate::lost, nullptr);
    }
}

void client::on_message(const redisReply& r) {
    if (is_error(r)) faults_.last = place() + ": no hints: " + std::string(text_of(r));
    fields f(r);
    const std::string what = f.text();
    if (what == "subscribe") back_off_.reset();
    if (f.size() != 3 || what != "message") return;
    f.text();
    const std::string hint = f.text();
    if (f.is_whole() && hint_) hint_(hint);
}

// --- the loop -----------------------------------------------------------------------------------

void client::receive() {
    epoll_event events[4];
    const int n = epoll_wait(epoll_, events, 4, 0);
    for (int i = 0; i < n; ++i) {
        const int fd = events[i].data.fd;
        if (fd == alarm_.fd()) alarm_.acknowledge();
        if (fd == talk_.fd()) talk_.on_ready(events[i].events);
        if (fd == hints_.fd()) hints_.on_ready(events[i].events);
    }
    wheel_.run();
    alarm_.rearm();
}

// Commands that are sent together are a flight. Requests wait for the answers of the last flight,
// because a server takes less time for few large commands than for many small ones. A second flight
// is sent once it is full, which keeps both sides busy. With a WAIT there is one at a time.
bool client::may_send(std::size_t waiting) const {
    const unsigned max_flights = options_.wait_replicas > 0 ? 1 : 2;
    return flights_ == 0 || (flights_ < max_flights && unsent_.size() + waiting >= full_flight);
}

void client::flush() {
    if (may_send() && !unsent_.empty()) {
        assert(!waiting_.empty() && "every byte that waits belongs to a command");
        talk_.send(std::exchange(unsent_, {}));
        for (pending& p : std::exchange(waiting_, {})) pending_.push_back(std::move(p));
        if (options_.wait_replicas > 0) wait_for_replicas();
        pending_.back().ends_flight = true;
        ++flights_;
    }
    if (!pending_.empty() && !silence_.pending()) wheel_.arm_after(silence_, options_.silence);
    talk_.flush();
    const auto refused = std::exchange(refused_, {});
    for (const answer& then : refused) then(fate::refused, nullptr);
    alarm_.rearm();
}

void client::leave() {
    talk_.send(unsent_);
    talk_.flush();
}

}  // namespace tvec::durable::redis
