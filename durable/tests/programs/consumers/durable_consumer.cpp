// A program that uses installed tvec and libtvec-durable. Exits with 0 if a timer stored in a file
// is delivered.
#include <tvec/durable/memory_store.hpp>
#include <tvec/durable/sqlite_store.hpp>
#include <tvec/durable/timers.hpp>

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <string>

int main() {
    char folder[] = "/tmp/tvec-consumer-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    const std::string file = std::string(folder) + "/timers.db";
    bool fired = false;
    {
        tvec::clocked_wheel<> wheel;
        tvec::durable::sqlite_store store(file);
        tvec::durable::timers<> timers(wheel, store,
                                       [&](const tvec::durable::delivery&) { fired = true; });
        const auto refused = timers.put({"a", timers.now()}, tvec::durable::existing::keep);
        std::printf("%s\n", tvec::durable::to_text(refused));
        while (!fired) {
            pollfd watched{timers.fd(), POLLIN, 0};
            poll(&watched, 1, 1);
            wheel.run();
            timers.run();
        }
    }
    for (const char* end : {"", "-wal", "-shm"}) unlink((file + end).c_str());
    rmdir(folder);
    tvec::durable::memory_database model;  // it is in the library, too
    const tvec::durable::memory_store store(model, "consumer");
    return store.unanswered() == 0 ? 0 : 1;
}
