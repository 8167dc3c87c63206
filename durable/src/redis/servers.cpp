#include "servers.hpp"

#include <chrono>
#include <utility>

namespace tvec::durable::redis {

servers::servers(redis_options o) : servers(addresses_of(o), std::move(o)) {}

servers::servers(std::vector<address> at, redis_options&& o)
    : first_(std::move(o), part::seed, std::move(at), faults_) {
    first_.wait_until_ready();
    if (first_.is_guide()) cluster_ = std::make_unique<cluster>(first_, faults_);
}

reading servers::now() const {
    return cluster_ ? cluster_->now() : first_.now_at(std::chrono::steady_clock::now());
}

reading servers::now(unsigned shard) const { return cluster_ ? cluster_->now(shard) : now(); }

std::string servers::warning() const {
    return detail::all_warnings(cluster_ ? cluster_->warning() : first_.warning(), terms_differ_);
}

void servers::listen(std::function<void(std::string_view)> hint,
                     std::function<void()> reconnected) {
    if (!cluster_) return first_.listen(std::move(hint), std::move(reconnected));
    first_.listen(std::move(hint), [this] { cluster_->on_map(); });
    cluster_->listen(std::move(reconnected));
}

}  // namespace tvec::durable::redis
