// Commands on a file that another process has open: it runs them, asked through a socket beside the
// file.
//
// A message is four bytes of its length, the lowest first, and as many bytes. The request is the
// settings of the command. The answers are messages of a letter and text: `o` output, `e` an error
// that ends it, `x` the exit status in decimal digits, which ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "settings.hpp"

namespace timers_tool {

constexpr std::size_t largest_message = 2'097'152;

// Returns the path of the socket beside a file. Throws std::runtime_error if it is too long.
std::string socket_of(const std::string& file);

// Returns the bytes of a message.
std::string framed(std::string_view message);
// Takes the first message from `bytes`, if it is whole. Throws std::runtime_error if it is longer
// than largest_message.
std::optional<std::string> take_message(std::string& bytes);

// Has the process that serves the file run a command, prints what it says, and returns the exit
// status. Returns nothing if no process listens there. Throws std::runtime_error, and has sent
// nothing, if that process is neither of root, nor of this user, nor of the owner of the file.
std::optional<int> run_there(const settings& o);

}  // namespace timers_tool
