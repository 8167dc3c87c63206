// tvec-timers: looks into a store of durable timers, changes what is there, and serves it.
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "../../examples/support/program.hpp"
#include "../support/open_store.hpp"
#include "commands.hpp"
#include "local_socket.hpp"
#ifdef TVEC_HAS_SERVE
#include "serve/service.hpp"
#endif

namespace {

using namespace timers_tool;
using tvec::durable::operation;
using tvec::durable::store;

// Only a put makes a file: a mistyped name must not look like an empty store.
void refuse_new_file(const settings& o) {
    if (o.command == "put" || o.command == "serve" || o.store.empty() ||
        example::is_server(o.store))
        return;
    std::error_code none;
    const auto size = std::filesystem::file_size(o.store, none);
    if (size != 0 && none != std::errc::no_such_file_or_directory) return;
    throw std::runtime_error(o.store + (size == 0 ? ": is empty" : ": is not there") +
                             ": expected a store; only put and serve make one");
}

bool print(output& out) {
    fmt::print("{}", std::exchange(out.text, ""));
    return true;
}

// Runs a command on a store that no other process needs to be asked for.
int run_here(const settings& o) {
    const auto s = example::open_store(o.store, o.wait_replicas);
    view v(*s, [&s](operation asked) { s->submit(std::move(asked)); });
    output out;
    out.take = print;
    auto running = run_command(o, v, out);
    running.start();
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!running.done()) {
        pollfd watched{s->fd(), POLLIN, 0};
        poll(&watched, 1, 1'000);
        if (s->run() != 0) limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        if (std::chrono::steady_clock::now() > limit)
            throw std::runtime_error("the store does not answer");
    }
    print(out);
    return running.result();
}

// Says that timers which were there keep another number of shards than was asked for.
[[maybe_unused]] void warn_of_shards(const settings& o, const tvec::durable::store& of) {
    if (const auto kept = of.traits().shards; o.shards && kept != *o.shards)
        fmt::print(stderr,
                   "tvec-timers: the timers there keep their {} shards: expected a new set for "
                   "--shards {}\n",
                   kept, *o.shards);
}

// Has a server take the tables and functions for programs in any language.
int install(const settings& o) {
#ifdef TVEC_HAS_REDIS
    if (example::is_redis(o.store)) {
        auto to = example::redis_at(o.store);
        to.shards = static_cast<unsigned>(o.shards.value_or(to.shards));
        const tvec::durable::redis_store opened(to);  // loads them
        fmt::print("functions of version {}, {} shards\n",
                   tvec::durable::redis_store::functions_version, opened.traits().shards);
        warn_of_shards(o, opened);
        return 0;
    }
#endif
#ifdef TVEC_HAS_POSTGRES
    if (example::is_postgres(o.store)) {
        auto to = example::postgres_at(o.store);
        to.shards = static_cast<unsigned>(o.shards.value_or(to.shards));
        tvec::durable::postgres::install(to);
        fmt::print("installed\n");
        if (o.shards) warn_of_shards(o, tvec::durable::postgres_store(to));
        return 0;
    }
#endif
    throw std::runtime_error(o.store + ": has no functions: expected redis:... or postgres:...");
}

int run(const settings& o) {
    if (o.command == "next") {
        output out;
        print_times(o, out);
        print(out);
        return 0;
    }
    example::require_store_name(o.store);
    refuse_new_file(o);
    if (o.command == "install") return install(o);
#ifdef TVEC_HAS_SERVE
    if (o.command == "serve") return serve(o);
#else
    if (o.command == "serve")
        throw std::runtime_error("serve was not built in: it needs libmicrohttpd and libcurl");
#endif
    if (!example::is_server(o.store))
        if (const auto status = run_there(o)) return *status;
    return run_here(o);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("tvec-timers", [&] {
        const settings o = parse(argc, argv);
        hide_passwords(argc, argv);
        return run(o);
    });
}
