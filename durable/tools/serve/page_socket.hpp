// The socket of the page: on this machine, and nowhere else.
#pragma once

#include <string>

namespace timers_tool {

struct page_socket {
    int fd;               // listens; its owner closes it
    std::string path;     // of a Unix socket, or ""
    std::string address;  // to look at
};

// Listens at 127.0.0.1:PORT or [::1]:PORT, where 0 is any free port, or at the path of a socket, to
// which only this user can connect. Throws std::exception if the address is another, or is taken.
page_socket listen_for_page(const std::string& address);

}  // namespace timers_tool
