/// \file
/// The servers of a store: one, or the primaries of a cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client.hpp"
#include "cluster.hpp"
#include "command.hpp"

namespace tvec::durable::redis {

/// The servers of a store. A command about a shard goes to the server that has the shard. A single
/// server has them all. The functions do what those of `client` do.
class servers {
public:
    using answer = client::answer;

    /// Connects, and waits until all is ready. Throws std::system_error.
    explicit servers(redis_options o);

    int fd() const noexcept { return cluster_ ? cluster_->fd() : first_.fd(); }
    const redis_options& options() const noexcept { return first_.options(); }
    unsigned shards() const noexcept { return cluster_ ? cluster_->shards() : first_.shards(); }
    /// Returns the time: the earliest of a cluster.
    reading now() const;
    /// Returns the time of the server that has a shard: the beginning of 1970 if it is not known.
    reading now(unsigned shard) const;
    std::string warning() const;
    /// Notes whether another process has other terms. For answers.
    void notice_terms(bool differ) noexcept { terms_differ_ = differ; }
    const std::string& failure() const noexcept { return faults_.last; }
    const std::map<std::string, std::uint64_t>& broken_connections() const noexcept {
        return faults_.broken;
    }
    bool is_ours() const noexcept { return first_.is_ours(); }
    const std::string& me() const noexcept { return first_.me(); }
    std::string key(std::string_view what) const { return key_of(options().name, what); }
    std::string key(unsigned shard, std::string_view what) const {
        return key_of(options().name, shard, what);
    }
    void listen(std::function<void(std::string_view)> hint, std::function<void()> reconnected);

    /// Queues a command about a shard, or about the common keys.
    void ask(std::optional<unsigned> shard, const command& c, answer then) {
        cluster_ ? cluster_->ask(shard, c, std::move(then)) : first_.ask(c, std::move(then));
    }
    void refuse(answer then) { first_.refuse(std::move(then)); }
    void touch(std::size_t waiting) { cluster_ ? cluster_->touch(waiting) : first_.touch(waiting); }
    void learn(long long us) { answering().learn(us); }
    void protest() { answering().protest(); }

    void receive() { cluster_ ? cluster_->receive() : first_.receive(); }
    /// Returns true if `flush` sends queued commands about this shard now.
    bool may_send(unsigned shard, std::size_t waiting) const {
        return cluster_ ? cluster_->may_send(shard, waiting) : first_.may_send(waiting);
    }
    void flush() { cluster_ ? cluster_->flush() : first_.flush(); }
    void leave() { cluster_ ? cluster_->leave() : first_.leave(); }

private:
    servers(std::vector<address> at, redis_options&& o);
    client& answering() noexcept { return cluster_ ? cluster_->answering() : first_; }

    detail::faults faults_;
    client first_;
    std::unique_ptr<cluster> cluster_;
    bool terms_differ_ = false;
};

}  // namespace tvec::durable::redis
