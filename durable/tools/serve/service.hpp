// The command `serve`: a process that delivers due timers to workers of any language.
#pragma once

#include "../settings.hpp"

namespace timers_tool {

// Serves until SIGTERM or SIGINT. Returns the exit status: 0 if nothing was left unfinished.
int serve(const settings& o);

}  // namespace timers_tool
