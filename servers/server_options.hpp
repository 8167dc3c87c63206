// The options of every echo server.
#pragma once

#include <cstdint>
#include <string>

#include "../support/command_line.hpp"

namespace example {

struct server_options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    std::string port_file;
    unsigned connections = 4000;
    unsigned idle_ms = 2000;
    unsigned write_ms = 1000;
    unsigned grace_ms = 500;
    unsigned seconds = 60;
};

inline void add_server_options(command_line& line, server_options& o) {
    constexpr unsigned day_ms = 86'400'000;
    line.add_text("--address", o.address, "IPv4 address to listen on");
    line.add_number("--port", o.port, 0, 65'535, "port to listen on; 0: any free one");
    line.add_text("--port-file", o.port_file, "write the port to this file once listening");
    line.add_number("--connections", o.connections, 1, 1'000'000,
                    "connections at a time to have descriptors for");
    line.add_number("--idle-ms", o.idle_ms, 1, day_ms,
                    "close a connection that says nothing for this long, in ms");
    line.add_number("--write-ms", o.write_ms, 1, day_ms,
                    "close a connection that does not take its echo in this many ms");
    line.add_number("--grace-ms", o.grace_ms, 0, day_ms,
                    "after a stall of the server nobody is closed for this long, in ms");
    line.add_number("--seconds", o.seconds, 1, 86'400,
                    "end after this many seconds, if no signal comes first");
}

}  // namespace example
