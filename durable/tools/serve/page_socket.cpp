#include "page_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "../../../examples/support/descriptors.hpp"
#include "../path_socket.hpp"

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
    throw std::runtime_error("expected 127.0.0.1:PORT, [::1]:PORT or the path of a socket: the "
                             "page has no password");
}

example::descriptor listening(const name& n) {
    example::descriptor fd(
        socket(n.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd.get() < 0) example::fail("socket");
    const int yes = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&n.bytes), n.size) != 0 ||
        listen(fd.get(), 64) != 0)
        example::fail("bind");
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

page_socket listen_for_page(const std::string& address) try {
    if (address.find('/') != address.npos)
        return {listening_at(address).release(), address, address};
    example::descriptor fd = listening(name_of_port(address));
    const std::string port = fmt::format(":{}", port_of(fd.get()));
    return {fd.release(), "", "http://" + address.substr(0, address.rfind(':')) + port + "/"};
} catch (const std::exception& e) {
    const bool is_named = std::string(e.what()).starts_with(address);
    throw std::runtime_error("--page " + (is_named ? "" : address + ": ") + e.what());
}

}  // namespace timers_tool
