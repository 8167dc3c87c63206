// The common part of the clients of servers: fates, names, delays and options.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "hash.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// The fate of a request to a server.
enum class fate_at_server {
    replied,  // it was done, and there is a reply
    refused,  // it was not done. If the server has refused it, there is a reply
    lost      // it may have been done or not
};

// Returns the result of a request that was refused (failed) or lost (unknown).
template <class Result> Result none_of(fate_at_server how) {
    return how == fate_at_server::refused ? Result::failed : Result::unknown;
}

inline unsigned random_bits() {
    unsigned bits = 0;
    if (getentropy(&bits, sizeof bits) != 0)
        throw std::system_error(errno, std::system_category(), "getentropy");
    return bits;
}

// Returns the name of a process: 16 random hexadecimal digits, and if it has terms a hyphen and 8
// digits, which are those of others with these terms.
inline std::string name_of_process(std::string_view terms) {
    constexpr const char* digits = "0123456789abcdef";
    std::string name;
    for (int i = 0; i < 16; ++i) name += digits[random_bits() % 16];
    if (terms.empty()) return name;
    name += '-';
    const std::uint64_t hash = hash_of(terms);
    for (int i = 0; i < 8; ++i) name += digits[hash >> 4 * i & 15];
    return name;
}

// What a store warns of while another process has other terms.
inline constexpr const char* other_terms =
    "another process serves these timers with other options: which of them count depends on the "
    "timer. Give all processes the same";

// What a store warns of: its server, and other terms, in one line.
inline std::string all_warnings(std::string_view server, bool terms_differ) {
    std::string text(server);
    if (terms_differ) text += (text.empty() ? "" : "; and ") + std::string(other_terms);
    return text;
}

// Returns the time from which on a server is to grant no claim that is sent now, in ms of its
// clock. A server that hung does what waits in the sockets of connections that were given up, and
// the answers are lost. While requests wait for each other, a server that is slow and answers may
// come to a claim as late as that.
inline std::int64_t last_time_of_claim(reading now, duration silence) {
    return std::chrono::floor<duration>((now + 2 * silence).time_since_epoch()).count();
}

// Delays before new connections. They double, with jitter: not all processes try at once.
class back_off {
public:
    // Returns the next delay, which is at most `slowest`.
    duration next(duration slowest) {
        const auto most = std::min(first * (1 << std::min(failures_++, 16U)), slowest);
        return most / 2 + duration(random_bits() % (most.count() / 2 + 1));
    }
    void reset() noexcept { failures_ = 0; }
    bool has_begun() const noexcept { return failures_ != 0; }

private:
    static constexpr duration first{50};
    unsigned failures_ = 0;
};

// Throws std::system_error if an option is not between `least` and a day. `option` is its name with
// that of its struct.
inline void require_duration(const std::string& store, const std::string& option, duration d,
                             duration least) {
    if (d >= least && d <= std::chrono::days(1)) return;
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            store + ": " + option + " is " + std::to_string(d.count()) +
                                " ms: expected " + std::to_string(least.count()) + " ms to a day");
}

// Returns one of a few reasons, under which a break of the connection is counted.
inline std::string reason_of(const std::error_code& code) {
    if (code == std::errc::timed_out) return "it does not answer";
    if (code == std::errc::connection_reset) return "connection reset";
    if (code == std::errc::protocol_error) return "wrong answer";
    if (code == std::errc::permission_denied) return "permission denied";
    if (code == std::errc::operation_not_permitted || code == std::errc::not_supported)
        return "not acceptable any more";
    if (code == std::errc::resource_unavailable_try_again) return "it is loading";
    return "other";
}

}  // namespace tvec::durable::detail
