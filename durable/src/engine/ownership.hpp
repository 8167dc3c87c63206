// Ownership of shards: leases, renewed by a heartbeat and fenced by epochs.
#pragma once

#include <cstddef>

#include "end_sender.hpp"
#include "engine_state.hpp"
#include "window.hpp"

namespace tvec::durable::detail {

// Keeps a fair share of the shards. Releases shards beyond that, and looks for missing ones.
class ownership {
public:
    ownership(engine_state& all, end_sender& ends, window& near)
        : all_(all), ends_(ends), near_(near) {}
    ownership(const ownership&) = delete;
    ownership& operator=(const ownership&) = delete;

    // Renews the leases of this process, and asks how many processes share the store.
    void join();
    // Drops a shard that another process owns.
    void fence(shard& s);
    // Drops all shards, because the connection was broken, and joins again.
    void rejoin();
    // Releases all shards, and does not join any more.
    void stop();

    std::size_t owned() const noexcept;
    // Those of them whose last lease that the store has confirmed is not over.
    std::size_t renewed() const noexcept;
    // Shards that are being released, and those that the store may still give to this process.
    std::size_t unreleased() const noexcept { return releases_in_flight_ + tries_in_flight_; }

private:
    void share(std::size_t processes);
    void seek();
    void own(shard& s);
    void on_owned(shard& s, epoch e);
    void lose(shard& s);
    void release(shard& s);

    engine_state& all_;
    end_sender& ends_;
    window& near_;
    timer heartbeat_{call<&ownership::heartbeat_, &ownership::join>};
    std::size_t fair_share_ = 1;
    std::size_t shards_to_try_ = 0;  // that may be free
    std::size_t next_to_try_ = 0;
    std::size_t tries_in_flight_ = 0;
    std::size_t releases_in_flight_ = 0;
};

}  // namespace tvec::durable::detail
