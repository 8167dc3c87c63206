// The socket beside a file: this process runs the commands of others on the timers that it serves.
#pragma once

#include <cstdint>
#include <list>
#include <string>

#include "../local_socket.hpp"
#include "../view.hpp"
#include "acceptor.hpp"
#include "loop.hpp"

namespace timers_tool {

class control {
public:
    // Listens at the path. Only the user of this process can connect. A socket that is left there
    // is replaced: the process that has the file open owns the path.
    control(loop& in, std::string path, view& v);
    control(const control&) = delete;
    control& operator=(const control&) = delete;
    ~control();

    // Answers the commands that are done. Call it in each turn of the loop.
    void run();

private:
    struct client;

    void take(int fd);
    bool make_room();
    void on_ready(client& c, std::uint32_t events);
    void receive(client& c);
    void begin(client& c, const std::string& message);
    void go_on(client& c);
    void send(client& c);

    loop& loop_;
    const std::string path_;
    view& view_;
    example::descriptor listener_;
    std::list<client> clients_;  // the oldest first
    acceptor acceptor_;
};

}  // namespace timers_tool
