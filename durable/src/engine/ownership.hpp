// The shards that this process owns: its share of them, by leases with epochs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shard.hpp"

namespace tvec::durable::detail {

class ownership {
public:
    explicit ownership(engine_state& all) : all_(all) {}
    ownership(const ownership&) = delete;
    ownership& operator=(const ownership&) = delete;

    std::size_t owned() const noexcept;
    void join();
    void own(shard& s);
    void fence(shard& s);
    void give_back(shard& s);
    void lose_all();
    // Has a turn of the loop, in which the engine can say that it has stopped.
    void wake();
    std::size_t releases() const noexcept { return releases_; }

private:
    void share(std::size_t processes);
    void seek();
    void on_owned(shard& s, epoch e);
    void lose(shard& s);

    engine_state& all_;
    timer beat_{call<&ownership::beat_, &ownership::join>};
    std::size_t fair_ = 1;                   // our share of the shards
    std::size_t to_try_ = 0, try_next_ = 0;  // shards that may be free
    std::size_t sought_ = 0;                 // of them, asked for just now
    std::size_t releases_ = 0;               // shards being given back
};

}  // namespace tvec::durable::detail
