// The command line of tvec-timers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "tvec/durable/store.hpp"

namespace timers_tool {

// Calls a function with each operation that changes one timer. Its name is a command.
template <class F> void for_each_change(F f) {
    const auto visit = [&f]<class Operation>(Operation o) {
        if constexpr (tvec::durable::detail::changes_one<Operation>) f(std::move(o));
    };
    [&]<class... Operation>(std::type_identity<std::variant<Operation...>>) {
        (visit(Operation{}), ...);
    }(std::type_identity<tvec::durable::operation>());
}

// The arguments of a call.
struct settings {
    std::string store, command, id, prefix, body, plan;
    std::optional<std::uint64_t> in_ms, due_ms, shards;
    std::uint64_t every_ms = 0, limit = 100;
    unsigned wait_replicas = 0;
    bool replace = false, json = false, all = false;
    // of `serve`
    std::string to, page;
    std::uint64_t lease_ms = 30'000, drain_ms = 5'000, overdue_ms = 15'000;
    std::optional<std::uint64_t> in_flight;
    unsigned attempts = 0;
};

// Returns how many deliveries `serve` may have under way at a time.
std::uint64_t most_in_flight(const settings& o);

// Returns the fault of settings that are each in range, or "".
std::string fault_of(const settings& o);

// Parses the arguments. Ends the program with one line and status 2 if they are wrong.
settings parse(int argc, char** argv);

// Overwrites what may be a password in `--store` and `--to`, because every user of the machine can
// read arguments: a URI up to its `@`, and a connection string from the word on.
void hide_passwords(int argc, char** argv);

// The settings of a command as a message to the process that has the store open, and back.
// from_message throws std::exception if the bytes are no such message, or the settings are wrong or
// out of the range that `parse` takes. It is for messages of anybody.
std::string to_message(const settings& o);
settings from_message(const std::string& bytes);

}  // namespace timers_tool
