#include "page_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "../../../support/descriptors.hpp"

namespace timers_tool {

namespace {

struct name {
    sockaddr_storage bytes{};
    socklen_t size = 0;
};

template <class Address> name named(const Address& a) {
    name n;
    static_assert(sizeof a <= sizeof n.bytes);
    *reinterpret_cast<Address*>(&n.bytes) = a;
    n.size = sizeof a;
    return n;
}

name name_of_path(const std::string& path) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (path.size() >= sizeof a.sun_path)
        throw std::runtime_error("--page " + path +
                                 ": is too long for a socket: use a shorter path");
    path.copy(a.sun_path, sizeof a.sun_path - 1);
    return named(a);
}

name name_of_port(const std::string& address) {
    const auto colon = address.rfind(':');
    const std::string host = address.substr(0, colon);
    const char* const end = address.data() + address.size();
    std::uint16_t port = 0;
    const char* const first = colon == address.npos ? end : address.data() + colon + 1;
    const auto [stopped, error] = std::from_chars(first, end, port);
    const bool has_port = error == std::errc() && stopped == end;
    if (has_port && host == "127.0.0.1") {
        sockaddr_in a{};
        a.sin_family = AF_INET;
        a.sin_port = htons(port);
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return named(a);
    }
    if (has_port && host == "[::1]") {
        sockaddr_in6 a{};
        a.sin6_family = AF_INET6;
        a.sin6_port = htons(port);
        a.sin6_addr = in6addr_loopback;
        return named(a);
    }
    throw std::runtime_error("--page " + address +
                             ": expected 127.0.0.1:PORT, [::1]:PORT or the "
                             "path of a socket: the page has no password");
}

// Listens there. A socket that is left at the path is replaced.
int listening(name n, const std::string& address, bool is_path) {
    const int fd = socket(n.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) example::fail("socket");
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct stat there {};
    if (is_path && lstat(address.c_str(), &there) == 0 && S_ISSOCK(there.st_mode))
        unlink(address.c_str());
    const mode_t before = umask(0177);
    const bool is_bound = bind(fd, reinterpret_cast<const sockaddr*>(&n.bytes), n.size) == 0;
    umask(before);
    if (!is_bound || listen(fd, 64) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        example::fail("--page " + address);
    }
    return fd;
}

std::uint16_t port_of(int fd) {
    name n;
    n.size = sizeof n.bytes;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&n.bytes), &n.size) != 0)
        example::fail("getsockname");
    return ntohs(reinterpret_cast<const sockaddr_in*>(&n.bytes)->sin_port);  // and of IPv6
}

}  // namespace

page_socket listen_for_page(const std::string& address) {
    if (address.find('/') != address.npos)
        return {listening(name_of_path(address), address, true), address, "", address};
    const int fd = listening(name_of_port(address), address, false);
    const std::string port = fmt::format(":{}", port_of(fd));
    return {fd, "", port, "http://" + address.substr(0, address.rfind(':')) + port + "/"};
}

}  // namespace timers_tool
