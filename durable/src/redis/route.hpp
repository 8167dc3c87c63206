/// \file
/// The way of the commands about one slot of a cluster.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "client.hpp"
#include "command.hpp"
#include "slot_map.hpp"
#include "tvec/clock/clocked_wheel.hpp"

namespace tvec::durable::redis {

/// The nodes of a cluster, as its routes need them.
class nodes {
public:
    /// Returns the client of a node, or nullptr if its name is unknown. Connects to a new node.
    virtual client* node_at(const endpoint& e) = 0;
    /// Notes that the map of slots may be outdated.
    virtual void doubt() = 0;
    /// Notes that this node is answering.
    virtual void answers(client& from) = 0;
    /// Calls `then` with fate::refused in the next `flush`. Notes the reason, if it is not "".
    virtual void refuse(client::answer then, const std::string& why) = 0;
    /// Reserves memory for a command. Returns false if there is too much. `free` is the opposite.
    virtual bool reserve(std::size_t bytes) = 0;
    virtual void free(std::size_t bytes) noexcept = 0;

protected:
    ~nodes() = default;
};

/// The commands about one slot, and the primary that holds it. They are done in the order of the
/// calls. A command that a node has not done, because the slot moves or the cluster has a fault, is
/// repeated where the error says, for `patience` at most. Later commands wait for it.
class route {
public:
    route(unsigned slot, nodes& all, clocked_wheel<>& wheel, duration patience);
    route(const route&) = delete;
    route& operator=(const route&) = delete;

    unsigned slot() const noexcept { return slot_; }
    /// Returns the node for the next command, or nullptr.
    client* next() const noexcept { return next_; }
    /// Returns true if commands are at this node, or will be.
    bool uses(const client& c) const noexcept;
    /// Sets the node for the next command.
    void lead_to(client* next);

    /// Sends a command once those before it allow it. Calls `then` once.
    void ask(const command& c, client::answer then);
    /// Sends what waits for a node that is ready now.
    void hurry();

private:
    struct errand {
        std::uint64_t number;  // in the order of the calls
        command words;
        client::answer then;
        std::chrono::steady_clock::time_point until;
        unsigned redirections = 0;
        std::string error{};  // the last redirection
    };
    using errand_ptr = std::shared_ptr<errand>;

    void go_on();
    void drop_expired();
    void send(const errand_ptr& e, client& to, bool asks);
    void on_answer(const errand_ptr& e, client& from, fate how, const redisReply* r);
    void follow(const errand_ptr& e, const redirection& r);
    void fail_before(std::uint64_t number);
    void finish(const errand& e, fate how, const redisReply* r);
    void pause();

    const unsigned slot_;
    nodes& all_;
    clocked_wheel<>& wheel_;
    const duration patience_;
    client* next_ = nullptr;   // holds the slot
    client* asked_ = nullptr;  // has the keys of the first waiting command, while the slot moves
    client* at_ = nullptr;     // has the commands under way
    std::size_t under_way_ = 0;
    bool is_turning_ = false;  // a command has come back, or is sent to try
    bool was_paused_ = false;
    std::uint64_t last_number_ = 0;
    std::deque<errand_ptr> waiting_{};  // in the order of the calls
    timer pause_{call<&route::pause_, &route::go_on>};
};

}  // namespace tvec::durable::redis
