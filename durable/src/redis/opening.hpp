/// \file
/// The opening of a set of timers on a server, or on those of a cluster.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "command.hpp"
#include "reply.hpp"

namespace tvec::durable::redis {

/// The names of the keys of a shard, in the order of functions.lua.
inline constexpr std::string_view shard_keys[] = {"due", "timer", "begun",  "body",
                                                  "own", "dead",  "damaged"};

/// Returns the name of a common key of a set, or of a key of a shard.
std::string key_of(const std::string& set, std::string_view what);
std::string key_of(const std::string& set, unsigned shard, std::string_view what);

/// Opens a set: learns the number of its shards, and upgrades timers of an older version.
class opening {
public:
    using replied = std::function<void(const redisReply&)>;

    /// Functions of its owner.
    struct listener {
        /// Sends a command about a shard, or about the common keys. Passes the reply to `then`,
        /// unless it is an error.
        std::function<void(std::optional<unsigned> shard, const command& c, replied then)> say;
        std::function<void(long long us)> learn;  ///< notes the time of the server, in us
        std::function<void(std::errc, std::string why)> refused;
        std::function<void()> opened;
    };

    /// `shards` is the number for a new set.
    opening(std::string set, unsigned shards, listener l);

    /// Opens the set, now or again. It must have the same number of shards each time.
    void begin();
    /// Returns the number of shards; 0 before the set was opened once.
    unsigned shards() const noexcept { return shards_; }
    bool is_upgrading() const noexcept { return is_upgrading_; }

private:
    void on_opened(const redisReply& r);
    void upgrade(unsigned shard);
    void finish();

    const std::string set_;
    const unsigned wanted_shards_;
    const listener listener_;
    unsigned shards_ = 0;
    bool is_upgrading_ = false;
};

}  // namespace tvec::durable::redis
