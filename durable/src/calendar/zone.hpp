// A time zone: local times and instants.
#pragma once

#include <chrono>
#include <string_view>

#include <cctz/time_zone.h>

#include "date.hpp"

namespace tvec::durable::calendar {

using std::chrono::sys_seconds;

class zone {
public:
    // Throws std::invalid_argument if the name or its file cannot be read.
    explicit zone(std::string_view name);

    // The instants that show a local time.
    struct instants {
        enum class kind {
            one,       // `first`
            two,       // `first` and `second`; the clock is set back at `change`
            left_out,  // none: the clock is set forward at `change`
        } what;
        sys_seconds first;
        sys_seconds second;
        sys_seconds change;
    };
    instants of(local_seconds local) const;

    local_seconds local(sys_seconds instant) const;

private:
    cctz::time_zone zone_;
};

}  // namespace tvec::durable::calendar
