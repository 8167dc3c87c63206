// A program that uses installed tvec and libtvec-durable-redis. Exits with 0 if the missing server
// is reported.
#include <tvec/durable/redis_store.hpp>
#include <tvec/durable/timers.hpp>

#include <cstdio>
#include <system_error>

int main() {
    try {
        tvec::durable::redis_store store({.socket = "/nowhere/socket"});
    } catch (const std::system_error& e) {
        std::puts(e.what());
        return e.code() == std::errc::no_such_file_or_directory ? 0 : 1;
    }
    return 1;
}
