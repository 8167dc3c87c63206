// Backends that keep timers: with tvec on them, or with polling code written by hand. An adapter
// for each is in a header beside this one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tvec/durable/store.hpp"

namespace bench {

using namespace tvec::durable;

struct item {
    std::string id;
    time_point due;
};

using on_due = std::function<void(time_point due)>;

// Code as people write it by hand. Used by one thread; another has a connection of its own.
class by_hand {
public:
    virtual ~by_hand() = default;
    // In one transaction, or one pipeline: stored when it returns, as safely as it is kept there.
    virtual void put(const std::vector<item>& items) = 0;
    // Calls with all that is due now, and removes it.
    virtual void poll(const on_due& handle) = 0;
};

class backend {
public:
    virtual ~backend() = default;
    virtual std::string name() const = 0;
    // Nothing is in it then, and nothing may be connected. Throws if there was something at first.
    virtual void clear() = 0;
    // Seconds of the processors that its server has used; 0 if it has none.
    virtual double server_cpu() = 0;
    // Returns how much of the disk or of the server's memory it occupies, while nothing is
    // connected.
    virtual double bytes() = 0;
    // Has it forget what can be read again; false if it holds everything anyway.
    virtual bool forget() { return false; }
    virtual std::unique_ptr<store> open() = 0;
    virtual std::unique_ptr<by_hand> connect() = 0;
    // For puts alone: the least that it can be asked for. Null if that is the same.
    virtual std::unique_ptr<by_hand> connect_bare() { return nullptr; }
};

}  // namespace bench
