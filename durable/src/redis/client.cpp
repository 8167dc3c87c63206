#include "client.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <system_error>
#include <utility>

#include "functions.hpp"
#include "server_facts.hpp"

namespace tvec::durable::redis {

namespace {

using std::chrono::steady_clock;

constexpr duration slowest_guide{1'000};

[[noreturn]] void fail(std::errc code, const std::string& what) {
    trouble(code, what).raise("redis_store");
}

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

// With a WAIT there is one flight at a time.
client::client(redis_options o, part p, std::vector<address> at, detail::faults& f)
    : options_(checked(std::move(o))), part_(p), faults_(f),
      me_(options_.name + ':' + detail::name_of_process(options_.terms)), maker_(getpid()),
      link_(*this, events_.wheel(), faults_,
            {.silence = options_.silence, .most_flights = options_.wait_replicas > 0 ? 1U : 2U}),
      addresses_(std::move(at)), seeds_(addresses_.size()), at_(addresses_.front()),
      talk_(events_.fd(), options_,
            {[this] { greet(); }, [this](reply_ptr r) { on_reply(std::move(r)); },
             [this](trouble why) { link_.lose(std::move(why)); }, [this] { link_.hear(); }}),
      hints_(events_.fd(), options_,
             {[this] {
                  if (has_credentials()) hints_.send(credentials().text());
                  hints_.send(command{"SUBSCRIBE", me_}.text());
              },
              [this](reply_ptr r) { on_message(*r); }, [this](const trouble&) { link_.retry(); }}),
      opening_(options_.name, options_.shards,
               {[this](std::optional<unsigned>, const command& c, greeted then) {
                    say(c, std::move(then));
                },
                [this](long long us) { learn(us); },
                [this](std::errc code, std::string why) {
                    link_.lose({code, std::move(why)});
                },
                [this] {
                    if (!is_ready()) on_ready();
                }}) {}

bool client::is_ours() const noexcept { return getpid() == maker_; }

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
    for (std::size_t tried = 1; !is_ready(); receive()) {
        flush();
        if (fault() && tried < addresses_.size() && fault()->code != std::errc::timed_out) {
            ++tried;
            link_.connect_anew();
        }
        if (fault()) fault()->at(at_.where).raise("redis_store");
        if (opening_.is_upgrading()) limit = steady_clock::now() + options_.silence;
        if (!events_.wait_until(limit)) fail(std::errc::timed_out, place() + "it does not answer");
    }
}

std::optional<trouble> client::open() {
    at_ = addresses_[next_address_++ % addresses_.size()];
    const int error = talk_.open(at_);
    return error == 0 ? std::nullopt : std::optional(trouble(error));
}

void client::close() {
    talk_.close();
    hints_.close();
    look_.cancel();
}

duration client::slowest() const {
    return is_guide_ ? std::min(slowest_guide, options_.slowest) : options_.slowest;
}

void client::try_again() {
    if (talk_.is_closed()) return connect();
    const bool wants_hints = is_ready() && part_ == part::seed && hints_.is_closed();
    if (wants_hints && hints_.open(at_) != 0) link_.retry();
}

void client::on_lost() {
    for (const held& h : std::exchange(held_, {})) h.then(fate::lost, nullptr);
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
    link_.expect([then = std::move(then)](fate, const redisReply* r) { then(*r); });
}

// Passes the reply to `then`. An error ends this connection.
void client::say(const command& c, greeted then) {
    try_to_say(c, [this, then = std::move(then)](const redisReply& r) {
        if (!is_error(r)) return then(r);
        const std::string why(text_of(r));
        link_.lose({code_of(why), why});
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
        if (is_ready()) accept();
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
        link_.lose({v.code, v.refusal});
        return false;
    }
    warning_ = std::move(v.warning);
    return true;
}

// Checks the settings and the role of the server, which change while it runs. Opens the set again:
// its data may have been deleted, and made anew by a process with another number of shards.
void client::look_again() {
    events_.wheel().arm_after(look_, options_.look_again);
    if (is_guide_) return ask_map();
    ask_facts();
    if (part_ == part::seed && !opening_.is_upgrading()) opening_.begin();
}

void client::on_version(const redisReply& r) {
    if (part_ == part::seed && (is_guide_ || is_in_cluster(info_))) return guide();
    if (!accept()) return;
    const long long version = r.type == REDIS_REPLY_INTEGER ? r.integer : 0;
    if (version > functions_version)
        return link_.lose({std::errc::not_supported,
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
        link_.lose({code_of(why), why + ": its functions are of version " + std::to_string(found) +
                                      " (0: none), expected " + std::to_string(functions_version) +
                                      ": load them by `tvec-timers install` as a user who may"});
    });
}

// The set of timers is opened here, or by the cluster.
void client::on_functions() { part_ == part::seed ? opening_.begin() : on_ready(); }

// A guide needs no functions, and may be a replica.
void client::guide() {
    if (link_.was_ready() && is_guide_ != is_in_cluster(info_))
        return link_.lose(
            {std::errc::not_supported, "it has joined or left its cluster: restart the program"});
    is_guide_ = true;
    request_map();
}

void client::ask_map() {
    if (is_ready()) request_map();
}

// A node that the rest of the cluster does not reach is not believed.
void client::request_map() {
    say({"CLUSTER", "INFO"}, [this](const redisReply& r) {
        if (!text_of(r).starts_with("cluster_state:ok"))
            link_.lose({std::errc::resource_unavailable_try_again, "the cluster is down"});
    });
    say({"CLUSTER", "SLOTS"}, [this](const redisReply& r) { on_map(r); });
}

void client::on_map(const redisReply& r) {
    auto map = slot_map::parsed(r, at_.host);
    if (!map)
        return link_.lose({std::errc::protocol_error, "its map of slots is not as it should be"});
    map_ = std::move(map);
    if (!is_ready()) return on_ready();
    if (ready_) ready_();
}

void client::on_ready() {
    link_.become_ready();
    events_.wheel().arm_after(look_, options_.look_again);
    try_again();
    if (ready_) ready_();
}

// --- asking and answers -------------------------------------------------------------------------

void client::ask(const command& c, answer then) {
    std::string text = c.text();
    const std::size_t bytes = text.size();
    if (talk_.unsent() + link_.unsent_bytes() + bytes <= options_.max_unsent_bytes)
        return link_.ask(std::move(text), bytes, 1, std::move(then));
    faults_.last = std::to_string(options_.max_unsent_bytes) +
                   " bytes wait to be sent: the server is slower than what is asked of it";
    refuse(std::move(then));
}

void client::protest() { faults_.last = place() + "an answer is not as it should be"; }

void client::on_reply(reply_ptr r) {
    const auto p = link_.take();
    if (!p) return link_.lose({std::errc::protocol_error, "it answers what was not asked"});
    if (p->is_greeting) return p->then(fate::replied, r.get());
    if (options_.wait_replicas == 0 || is_followed(*r)) return give(p->then, *r);
    held_.push_back({p->then, std::move(r), p->asked});
}

// Returns true if the command was not done, and will be asked of another node or later.
bool client::is_followed(const redisReply& r) const {
    return part_ == part::primary && is_error(r) && is_redirection(text_of(r));
}

// Passes a reply on. An error becomes a fate.
void client::give(const answer& then, const redisReply& r) {
    if (!is_error(r)) return then(fate::replied, &r);
    const std::string_view why = text_of(r);
    if (!is_followed(r)) faults_.last = place() + std::string(why);
    then(has_begun(why) ? fate::lost : fate::refused, &r);
    if (is_changed(why)) link_.lose({code_of(why), std::string(why)});
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
        faults_.last = place() + "too few replicas have what was written: wait_replicas is " +
                       std::to_string(options_.wait_replicas);
    const auto all = std::exchange(held_, {});
    for (const held& h : all) {
        link_.answer_for(h.asked);
        is_safe ? give(h.then, *h.reply) : h.then(fate::lost, nullptr);
    }
}

void client::on_message(const redisReply& r) {
    if (is_error(r)) faults_.last = place() + "no hints: " + std::string(text_of(r));
    fields f(r);
    const std::string what = f.text();
    if (what == "subscribe") link_.reset_pause();
    if (f.size() != 3 || what != "message") return;
    f.text();
    const std::string hint = f.text();
    if (f.is_whole() && hint_) hint_(hint);
}

// --- the loop -----------------------------------------------------------------------------------

void client::receive() {
    events_.run([this](int fd, std::uint32_t events) {
        if (fd == talk_.fd()) talk_.on_ready(events);
        if (fd == hints_.fd()) hints_.on_ready(events);
    });
}

void client::end_flight() {
    if (options_.wait_replicas > 0) wait_for_replicas();
}

void client::flush() {
    link_.flush();
    talk_.flush();
    events_.rearm();
}

void client::leave() {
    link_.send();
    talk_.flush();
}

}  // namespace tvec::durable::redis
