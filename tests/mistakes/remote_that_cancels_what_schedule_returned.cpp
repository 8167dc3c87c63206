// says: the handle in what `schedule` returned: .handle
// lines: 12
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(const tvec::remote_sender<>& sender) {
    const auto late = sender.schedule(1ms, [] {});
    sender.cancel(late);
}
