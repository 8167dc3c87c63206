// says: a duration: 1500ms, not 1.5s; then a function
// lines: 9
#include "tvec/tvec.hpp"

void add(const tvec::remote_sender<>& sender) {
    sender.schedule(100, [] {});
}
