// says: a time_point of its clock, then a function
// lines: 9
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(const tvec::remote_sender<>& sender) {
    sender.schedule_at(1ms, [] {});
}
