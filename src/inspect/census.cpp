#include "tvec/census.hpp"

#include "tvec/detail/inspect/census_taker.hpp"
#include "tvec/detail/inspect/dump.hpp"
#include "tvec/detail/inspect/text.hpp"

namespace tvec {

census take_census(const timer_wheel& wheel) noexcept { return census_taker(wheel).count(); }

std::string to_text(const census& counted) {
    std::string all;
    detail::text out = detail::appending_to(all);
    out << "tvec-census 1\n";
    out << "now " << counted.now << "\n";
    out << "first_expiry " << counted.first_expiry << "\n";
    out << "last_expiry " << counted.last_expiry << "\n";
    for (unsigned level = geometry::root; level < geometry::levels; ++level) {
        out << "level " << level << " " << geometry::width_of(level) << " "
            << geometry::ring_of(level) << "\n";
        for (unsigned i = 0; i < geometry::ring_of(level); ++i) {
            const unsigned s = geometry::slot_number(level, i);
            const census::slot& slot = counted.slots[s];
            if (slot.linked() == 0) continue;
            out << "slot " << geometry::visit_of(level, s, counted.now) << " " << slot.pending
                << " " << slot.idle << "\n";
        }
    }
    const census::level& beyond = counted.levels[geometry::overflow];
    out << "overflow " << beyond.pending << " " << beyond.idle << "\n";
    return all;
}

std::string dump(const timer_wheel& wheel, std::size_t timers) {
    std::string all;
    detail::write_dump(detail::appending_to(all), wheel, timers);
    return all;
}

}  // namespace tvec
