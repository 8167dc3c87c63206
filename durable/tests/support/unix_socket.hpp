// Sockets in the file system: listening on one, and connecting to it.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "support/check.hpp"

namespace support {

// Returns a socket for which call(fd, name, length) has succeeded, or -1.
template <class Call> int socket_at(const std::string& path, Call call) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, path.c_str(), sizeof name.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (call(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return fd;
    close(fd);
    return -1;
}

inline int connected_to(const std::string& path) { return socket_at(path, ::connect); }

inline int listening_on(const std::string& path) {
    const int fd = socket_at(path, ::bind);
    REQUIRE(listen(fd, 9) == 0);
    return fd;
}

}  // namespace support
