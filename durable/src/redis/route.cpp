#include "route.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

namespace tvec::durable::redis {

namespace {

using std::chrono::steady_clock;

constexpr duration pause_length{50};
// More in a row are a loop of nodes that do not agree yet.
constexpr unsigned quick_redirections = 3;

}  // namespace

route::route(unsigned slot, nodes& all, clocked_wheel<>& wheel, duration patience)
    : slot_(slot), all_(all), wheel_(wheel), patience_(patience) {}

bool route::uses(const client& c) const noexcept {
    return next_ == &c || asked_ == &c || (at_ == &c && under_way_ != 0);
}

void route::lead_to(client* next) {
    if (next == next_) return;
    next_ = next;
    asked_ = nullptr;
    hurry();
}

void route::hurry() {
    pause_.cancel();
    was_paused_ = false;
    go_on();
}

void route::pause() {
    was_paused_ = true;
    wheel_.arm_after(pause_, pause_length);
}

void route::ask(const command& c, client::answer then) {
    if (!all_.reserve(c.size())) return all_.refuse(std::move(then), "");
    waiting_.push_back(std::make_shared<errand>(
        errand{++last_number_, c, std::move(then), steady_clock::now() + patience_}));
    go_on();
}

// Sends the waiting commands to the node that should do them. If a command has come back, or the
// node is another one, those under way come first. After a pause one command is sent to try, and
// ASK is about one command.
void route::go_on() {
    if (pause_.pending()) return;
    if (under_way_ != 0 && (is_turning_ || asked_ != nullptr || next_ != at_)) return;
    drop_expired();
    if (waiting_.empty()) return;
    client* const to = asked_ != nullptr ? asked_ : next_;
    assert(to != nullptr && "without a node everything has expired");
    if (to->is_new() && !to->is_ready()) return pause();
    const bool asks = std::exchange(asked_, nullptr) != nullptr;
    is_turning_ = std::exchange(was_paused_, false) || asks;
    at_ = to;
    const std::size_t n = is_turning_ ? 1 : waiting_.size();
    for (std::size_t i = 0; i < n; ++i, waiting_.pop_front()) send(waiting_.front(), *to, asks);
}

// Refuses commands that have waited for too long. Without a node that is all of them.
void route::drop_expired() {
    const auto now = steady_clock::now();
    const bool has_node = next_ != nullptr || asked_ != nullptr;
    while (!waiting_.empty() && (!has_node || waiting_.front()->until <= now)) {
        errand& e = *waiting_.front();
        const std::string why = !has_node ? "no node holds it" : e.error;
        all_.free(e.words.size());
        all_.refuse(std::move(e.then),
                    why.empty() ? why : "slot " + std::to_string(slot_) + ": " + why);
        waiting_.pop_front();
    }
}

void route::send(const errand_ptr& e, client& to, bool asks) {
    ++under_way_;
    if (asks) to.ask({"ASKING"}, [](fate, const redisReply*) {});
    to.ask(e->words, [this, e, &to](fate how, const redisReply* r) { on_answer(e, to, how, r); });
}

void route::on_answer(const errand_ptr& e, client& from, fate how, const redisReply* r) {
    assert(under_way_ > 0 && "every command under way is answered once");
    --under_way_;
    redirection to;
    if (how == fate::refused && r != nullptr) to = redirection_of(text_of(*r), from.at().host);
    if (to.what != redirection::kind::none) {
        e->error = text_of(*r);
        follow(e, to);
    } else {
        if (how != fate::refused) fail_before(e->number);
        all_.answers(from);
        finish(*e, how, r);
    }
    go_on();
}

// The command waits again, in its place.
void route::follow(const errand_ptr& e, const redirection& r) {
    using enum redirection::kind;
    is_turning_ = true;
    const auto after = std::ranges::upper_bound(waiting_, e->number, {},
                                                [](const errand_ptr& w) { return w->number; });
    waiting_.insert(after, e);
    client* const to = r.what == later ? nullptr : all_.node_at(r.to);
    asked_ = r.what == ask ? to : nullptr;
    if (r.what == moved && to != nullptr) next_ = to;
    if (r.what != ask) all_.doubt();
    if (to == nullptr || ++e->redirections > quick_redirections) pause();
}

// Commands that came back must not be done after a later one: the slot has come back as well.
void route::fail_before(std::uint64_t number) {
    std::vector<errand_ptr> failed;
    for (; !waiting_.empty() && waiting_.front()->number < number; waiting_.pop_front())
        failed.push_back(waiting_.front());
    for (const errand_ptr& e : failed) finish(*e, fate::refused, nullptr);
}

void route::finish(const errand& e, fate how, const redisReply* r) {
    all_.free(e.words.size());
    e.then(how, r);
}

}  // namespace tvec::durable::redis
