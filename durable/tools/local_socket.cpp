#include "local_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "../../examples/support/descriptors.hpp"
#include "path_socket.hpp"

namespace timers_tool {

namespace {

void send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) example::fail("asking the process that serves the file");
        bytes.remove_prefix(sent < 0 ? 0 : static_cast<std::size_t>(sent));
    }
}

void receive_some(int fd, std::string& bytes) {
    char part[65'536];
    const ssize_t got = recv(fd, part, sizeof part, 0);
    if (got < 0 && errno == EINTR) return;
    if (got < 0 && errno == EAGAIN)
        throw std::runtime_error("the process that serves the file does not answer");
    if (got < 0) example::fail("the process that serves the file");
    if (got == 0)
        throw std::runtime_error("the process that serves the file ended before it had answered");
    bytes.append(part, static_cast<std::size_t>(got));
}

// Throws if the process that listens is of a stranger, who may have been first in a folder that
// many users can write.
void require_trusted(int fd, const std::string& path, const std::string& file) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) example::fail(path);
    struct stat s {};
    const bool owns_file = stat(file.c_str(), &s) == 0 && s.st_uid == peer.uid;
    if (peer.uid == 0 || peer.uid == geteuid() || owns_file) return;
    throw std::runtime_error(
        fmt::format("{}: user {} listens there: expected root, you or the owner of {}, so nothing "
                    "was sent: remove the socket, and keep the file in a folder of its owner",
                    path, peer.uid, file));
}

}  // namespace

std::string socket_of(const std::string& file) {
    const std::string path = file + ".socket";
    static_cast<void>(address_at(path));
    return path;
}

std::string framed(std::string_view message) {
    const auto size = static_cast<std::uint32_t>(message.size());
    std::string bytes;
    for (unsigned shift = 0; shift < 32; shift += 8)
        bytes += static_cast<char>(size >> shift & 0xff);
    return bytes.append(message);
}

std::optional<std::string> take_message(std::string& bytes) {
    if (bytes.size() < 4) return {};
    std::size_t size = 0;
    for (unsigned i = 0; i < 4; ++i)
        size |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    if (size > largest_message) throw std::runtime_error("a message is too long");
    if (bytes.size() - 4 < size) return {};
    std::string message = bytes.substr(4, size);
    bytes.erase(0, 4 + size);
    return message;
}

std::optional<int> run_there(const settings& o) {
    if ((o.store + ".socket").size() >= sizeof(sockaddr_un::sun_path)) return {};
    const example::descriptor fd = connected_to(socket_of(o.store));
    if (fd.get() < 0) return {};
    require_trusted(fd.get(), socket_of(o.store), o.store);
    const timeval patience{10, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    send_all(fd.get(), framed(to_message(o)));
    for (std::string bytes;;) {
        const auto message = take_message(bytes);
        if (!message) {
            receive_some(fd.get(), bytes);
        } else if (message->starts_with('o')) {
            fmt::print("{}", message->substr(1));
        } else if (message->starts_with('x')) {
            int status = 1;
            std::from_chars(message->data() + 1, message->data() + message->size(), status);
            return status;
        } else {
            throw std::runtime_error(message->substr(std::min<std::size_t>(message->size(), 1)));
        }
    }
}

}  // namespace timers_tool
