// Sockets at paths.
#pragma once

#include <sys/un.h>

#include <string>

#include "../../examples/support/descriptors.hpp"

namespace timers_tool {

// Returns the address of a path. Throws std::runtime_error if it is too long.
sockaddr_un address_at(const std::string& path);

// Connects to the socket at a path. Returns no descriptor if no process listens there.
example::descriptor connected_to(const std::string& path);

// Listens at a path, where only this user can connect. A socket that is left there is replaced.
// Throws std::exception if a process listens there, or something else is there.
example::descriptor listening_at(const std::string& path);

}  // namespace timers_tool
