#include "path_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

namespace timers_tool {

namespace {

example::descriptor made(int flags) {
    example::descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    if (fd.get() < 0) example::fail("socket");
    return fd;
}

}  // namespace

sockaddr_un address_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        throw std::runtime_error(path + ": is too long for a socket: use a shorter path");
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

example::descriptor connected_to(const std::string& path) {
    const sockaddr_un address = address_at(path);
    example::descriptor fd = made(0);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        return fd;
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR) return {};
    example::fail(path);
}

example::descriptor listening_at(const std::string& path) {
    const sockaddr_un address = address_at(path);
    struct stat there {};
    if (lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode)) {
        if (connected_to(path).get() >= 0)
            throw std::runtime_error(path + ": another process listens there: use another path");
        unlink(path.c_str());
    }
    example::descriptor fd = made(SOCK_NONBLOCK);
    const mode_t before = umask(0177);
    const bool is_bound =
        bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    umask(before);
    if (!is_bound || listen(fd.get(), 64) != 0) example::fail(path);
    return fd;
}

}  // namespace timers_tool
