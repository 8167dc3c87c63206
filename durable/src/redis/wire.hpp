/// \file
/// The commands about many items, as a `coalescer` sends them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "../link/coalescer.hpp"
#include "command.hpp"
#include "reply.hpp"
#include "servers.hpp"

namespace tvec::durable::redis {

/// The wire of a `coalescer`, with a group for each shard. The items of a batch are read from one
/// reply, one after another.
class wire {
public:
    using input = fields&;
    using words = command;
    using head = command;  // the arguments before the first item
    using batch = detail::batch<command, fields&>;
    using slot = detail::slot<fields&>;
    enum class kind { puts, ends, claims, spends };
    static constexpr std::size_t kinds = 4;
    // The server does nothing else during a command.
    static constexpr std::size_t together = 500, bytes_together = 262'144;

    explicit wire(servers& s) : servers_(s) {}

    command begin(std::size_t shard, kind k, const head& first) const;
    static std::size_t weight(const command& c) { return c.size(); }
    void send(std::size_t shard, kind k, const batch& b);
    void touch(std::size_t bytes) { servers_.touch(bytes); }
    void answer(const detail::request_ptr<fields&>& q);

    /// Returns a call of a function with all keys of a shard.
    command function(std::size_t shard, std::string_view name) const;
    /// Sends a command about a shard, or about the common keys, whose reply begins with the time or
    /// not.
    void ask(std::optional<unsigned> shard, const command& c, std::vector<slot> slots,
             bool has_time);

private:
    void on_answer(const std::vector<slot>& slots, bool has_time, fate how, const redisReply* r);
    bool read(const std::vector<slot>& slots, bool has_time, const redisReply& r);

    servers& servers_;
};

}  // namespace tvec::durable::redis
