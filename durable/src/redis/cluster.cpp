#include "cluster.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <utility>

namespace tvec::durable::redis {

namespace {

using std::chrono::steady_clock;

constexpr duration first_doubt{50};
constexpr duration longest_doubt{1'000};

// Returns true if a node can be reached, and is unfit for timers.
bool is_refusal(const trouble& t) {
    for (const std::errc code : {std::errc::operation_not_permitted, std::errc::not_supported,
                                 std::errc::permission_denied, std::errc::invalid_argument})
        if (t.code == code) return true;
    return false;
}

}  // namespace

cluster::cluster(client& guide, detail::faults& f)
    : guide_(guide), faults_(f),
      opening_(guide.options().name, guide.options().shards,
               {[this](std::optional<unsigned> shard, const command& c, opening::replied then) {
                    say(shard, c, std::move(then));
                },
                [this](long long us) { answering_->learn(us); },
                [this](std::errc code, std::string why) { on_refused(code, std::move(why)); },
                [this] { on_opened(); }}) {
    events_.watch(guide_.fd());
    guide_.listen({}, [this] { on_map(); });
    on_map();
    open();
    connect_all();
}

// --- opening ------------------------------------------------------------------------------------

void cluster::open() {
    opening_.begin();
    const bool is_answered = wait_until([this] { return is_open_ || refusal_; });
    if (!is_answered) refusal_.emplace(std::errc::timed_out, "it does not answer");
    if (refusal_) refusal_->at(guide_.at().where).raise("redis_store");
}

// Waits for each primary, and refuses a cluster if one of them is unfit for timers.
void cluster::connect_all() {
    for (unsigned shard = 0; shard < shards(); ++shard) route_of(shard);
    wait_until([this] {
        return std::ranges::none_of(
            nodes_, [](const auto& n) { return n.second->is_new() && !n.second->is_ready(); });
    });
    for (const auto& [where, node] : nodes_)
        if (node->fault() && is_refusal(*node->fault()))
            node->fault()->at(where.text()).raise("redis_store");
}

// Waits for `silence` at most. Returns false if that was not long enough.
bool cluster::wait_until(const std::function<bool()>& is_so) {
    const duration silence = guide_.options().silence;
    auto limit = steady_clock::now() + silence;
    while (!is_so()) {
        flush();
        if (opening_.is_upgrading()) limit = steady_clock::now() + silence;
        if (!events_.wait_until(limit)) return false;
        receive();
    }
    return true;
}

// The data may have been deleted, and made anew by a process with another number of shards.
void cluster::look_again() { opening_.begin(); }

void cluster::say(std::optional<unsigned> shard, const command& c, opening::replied then) {
    route& way = route_of(shard);
    way.ask(c, [this, &way, then = std::move(then)](fate how, const redisReply* r) {
        how == fate::replied ? then(*r) : on_failed(way, r);
    });
}

// A set that was open stays so, and is looked at again later.
void cluster::on_failed(const route& way, const redisReply* r) {
    if (r != nullptr) faults_.last = text_of(*r);
    if (is_open_) {
        events_.wheel().arm_after(look_, guide_.options().look_again);
        return;
    }
    trouble t(r == nullptr ? std::errc::timed_out : code_of(faults_.last), faults_.last);
    const client* const node = way.next();
    if (r == nullptr && node != nullptr && node->fault()) t = *node->fault();
    refusal_ = node == nullptr ? std::move(t) : t.at(node->at().where);
}

void cluster::on_refused(std::errc code, std::string why) {
    faults_.last = why;
    refusal_.emplace(code, std::move(why));
    events_.wheel().arm_after(look_, guide_.options().look_again);
}

void cluster::on_opened() {
    is_open_ = true;
    refusal_.reset();
    events_.wheel().arm_after(look_, guide_.options().look_again);
}

// --- nodes and slots ----------------------------------------------------------------------------

// Looks the name of a node up once, which waits for the name server if it is no address.
const std::vector<address>& cluster::addresses_at(const endpoint& e) {
    std::vector<address>& found = addresses_[e];
    redis_options o = guide_.options();
    o.socket.clear();
    o.host = e.host;
    o.port = e.port;
    try {
        if (found.empty()) found = addresses_of(o);
    } catch (const std::system_error& error) {
        faults_.last = error.what();
    }
    return found;
}

client* cluster::node_at(const endpoint& e) {
    if (const auto known = nodes_.find(e); known != nodes_.end()) return known->second.get();
    const std::vector<address>& addresses = addresses_at(e);
    if (addresses.empty()) return nullptr;
    auto& node = nodes_[e] =
        std::make_unique<client>(guide_.options(), part::primary, addresses, faults_);
    client& c = *node;
    c.listen({}, [this, &c, again = false]() mutable { on_ready(c, std::exchange(again, true)); });
    events_.watch(c.fd());
    c.connect();
    return &c;
}

void cluster::on_ready(const client& c, bool again) {
    for (const auto& r : routes_)
        if (r->uses(c)) r->hurry();
    if (again && reconnected_) reconnected_();
}

route& cluster::route_of(std::optional<unsigned> shard) {
    const std::size_t index = shard ? *shard + 1 : 0;
    const redis_options& o = guide_.options();
    nodes& mine = *this;
    while (routes_.size() <= index) {
        const std::string tag =
            routes_.empty() ? o.name : o.name + ':' + std::to_string(routes_.size() - 1);
        routes_.push_back(std::make_unique<route>(slot_of(tag), mine, events_.wheel(), o.silence));
        follow_map(*routes_.back());
    }
    return *routes_[index];
}

// A primary that works tells by itself that a slot has moved, and knows it before the guide.
void cluster::follow_map(route& r) {
    const client* const now = r.next();
    const auto works = [&](const auto& n) {
        return n.second.get() == now && now->is_ready() && guide_.map().is_primary(n.first);
    };
    if (std::ranges::any_of(nodes_, works)) return;
    const endpoint* const primary = guide_.map().primary_of(r.slot());
    r.lead_to(primary == nullptr ? nullptr : node_at(*primary));
}

void cluster::on_map() {
    keep_time();
    for (const auto& r : routes_) follow_map(*r);
    const bool was_replaced = forget_nodes();
    std::vector<address> others;
    for (const endpoint& e : guide_.map().nodes())
        std::ranges::copy(addresses_at(e), std::back_inserter(others));
    guide_.try_also(others);
    lacks_node_ = std::ranges::any_of(routes_, [](const auto& r) { return r->next() == nullptr; });
    if (is_settled()) doubts_ = 0;
    if (was_replaced && reconnected_) reconnected_();
}

// Forgets nodes that no route uses. Returns true if one of them is not a primary any more: its
// replica may lack writes, such as the ownership of a shard.
bool cluster::forget_nodes() {
    bool was_replaced = false;
    std::erase_if(nodes_, [&](const auto& n) {
        const client& c = *n.second;
        const bool is_used =
            std::ranges::any_of(routes_, [&](const auto& r) { return r->uses(c); });
        if (is_used || !c.is_idle()) return false;
        was_replaced = was_replaced || !guide_.map().is_primary(n.first);
        if (answering_ == &c) answering_ = &guide_;
        events_.unwatch(c.fd());
        return true;
    });
    std::erase_if(addresses_, [&](const auto& a) {
        return !std::ranges::count(guide_.map().nodes(), a.first);
    });
    return was_replaced;
}

bool cluster::is_settled() const {
    return !lacks_node_ &&
           std::ranges::all_of(nodes_, [](const auto& n) { return n.second->is_ready(); });
}

void cluster::doubt() {
    if (learn_.pending()) return;
    const auto wait = first_doubt * (1 << std::min(doubts_++, 10U));
    events_.wheel().arm_after(learn_, std::min(wait, longest_doubt));
}

// --- asking -------------------------------------------------------------------------------------

// Notes the time, in case that the clock of no primary is known for a while.
void cluster::keep_time() {
    const auto t = steady_clock::now();
    if (const reading now_here = now(); now_here != reading{}) {
        kept_time_ = {};
        kept_time_.learn(now_here, t, t);
    }
}

reading cluster::now() const {
    const auto t = steady_clock::now();
    std::optional<reading> earliest;
    for (const auto& [where, node] : nodes_) {
        const reading r = node->now_at(t);
        if (r != reading{} && (!earliest || r < *earliest)) earliest = r;
    }
    return earliest.value_or(kept_time_.at(t));
}

reading cluster::now(unsigned shard) const {
    const client* const node = routes_[shard + 1]->next();
    return node == nullptr ? reading{} : node->now_at(steady_clock::now());
}

const std::string& cluster::warning() const noexcept {
    for (const auto& [where, node] : nodes_)
        if (!node->warning().empty()) return node->warning();
    return guide_.warning();
}

void cluster::ask(std::optional<unsigned> shard, const command& c, client::answer then) {
    if (refusal_) return refuse(std::move(then), refusal_->why);
    route_of(shard).ask(c, std::move(then));
    events_.rearm();
}

void cluster::refuse(client::answer then, const std::string& why) {
    if (!why.empty()) faults_.last = why;
    guide_.refuse(std::move(then));
}

bool cluster::reserve(std::size_t bytes) {
    const std::size_t most = guide_.options().max_unsent_bytes;
    if (reserved_ + bytes <= most) {
        reserved_ += bytes;
        return true;
    }
    faults_.last =
        std::to_string(most) + " bytes wait: the cluster is slower than what is asked of it";
    return false;
}

void cluster::free(std::size_t bytes) noexcept {
    assert(bytes <= reserved_ && "what is freed was reserved");
    reserved_ -= bytes;
}

bool cluster::may_send(unsigned shard, std::size_t waiting) const {
    const client* const node = routes_[shard + 1]->next();
    return node == nullptr || node->may_send(waiting);
}

// Any node wakes the loop, which sends to all that may be sent to.
void cluster::touch(std::size_t waiting) {
    for (const auto& [where, node] : nodes_)
        if (node->may_send(waiting)) return node->touch(waiting);
}

// --- the loop -----------------------------------------------------------------------------------

void cluster::receive() {
    events_.run([this](int fd, std::uint32_t) {
        if (fd == guide_.fd()) guide_.receive();
        const auto is_it = [fd](const auto& node) { return node.second->fd() == fd; };
        const auto node = std::ranges::find_if(nodes_, is_it);
        if (node != nodes_.end()) node->second->receive();
    });
    if (!is_settled()) doubt();
    events_.rearm();
}

void cluster::flush() {
    for (const auto& [where, node] : nodes_) node->flush();
    guide_.flush();
    events_.rearm();
}

void cluster::leave() {
    for (const auto& [where, node] : nodes_) node->leave();
}

}  // namespace tvec::durable::redis
