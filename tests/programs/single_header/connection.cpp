#include "connection.hpp"

void connection::heard() { timers_.arm_after(idle_, std::chrono::milliseconds(2)); }
