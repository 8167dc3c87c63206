// Ends of deliveries on their way to the store. An end is sent until the store has answered it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shard.hpp"

namespace tvec::durable::detail {

class end_sender {
public:
    explicit end_sender(engine_state& all) : all_(all) {}
    end_sender(const end_sender&) = delete;
    end_sender& operator=(const end_sender&) = delete;

    void return_claim(token t);
    void end(pending_end e);
    void flush(shard& s);
    std::size_t unstored() const noexcept { return unstored_; }

private:
    void on_ends(shard& s, std::vector<pending_end>& asked, standing how,
                 const std::vector<end_reply>& got);
    static bool is_claimed_again(const shard& s, const std::string& id);
    void on_ended(shard& s, pending_end& e, const end_reply& r);

    engine_state& all_;
    std::size_t unstored_ = 0;  // ends that the store has not answered
};

}  // namespace tvec::durable::detail
