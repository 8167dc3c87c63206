#include "tvec/inspect/inspect.hpp"

#include "tvec/inspect/detail/census_taker.hpp"
#include "tvec/inspect/detail/dump.hpp"
#include "tvec/inspect/detail/fault.hpp"
#include "tvec/inspect/detail/text.hpp"

namespace tvec {

std::string check(const timer_wheel& wheel) { return detail::first_fault(wheel).c_str(); }

census take_census(const timer_wheel& wheel) noexcept {
    return detail::census_taker(wheel).count();
}

std::string to_text(const census& counted) {
    std::string all;
    detail::text out = detail::appending_to(all);
    out << "tvec-census 1\n";
    out << "now " << counted.now << "\n";
    out << "first_expiry " << counted.first_expiry << "\n";
    out << "last_expiry " << counted.last_expiry << "\n";
    for (unsigned level = 0; level < census::overflow; ++level) {
        out << "level " << level << " " << census::width_of(level) << " " << census::slots_of(level)
            << "\n";
        for (unsigned i = 0; i < census::slots_of(level); ++i) {
            const census::slot& slot = counted.at(level, i);
            if (slot.linked() == 0) continue;
            out << "slot " << counted.visit_of(level, i) << " " << slot.pending << " " << slot.idle
                << "\n";
        }
    }
    const census::level& beyond = counted.levels[census::overflow];
    out << "overflow " << beyond.pending << " " << beyond.idle << "\n";
    return all;
}

std::string dump(const timer_wheel& wheel, std::size_t timers) {
    std::string all;
    detail::write_dump(detail::appending_to(all), wheel, timers);
    return all;
}

}  // namespace tvec
