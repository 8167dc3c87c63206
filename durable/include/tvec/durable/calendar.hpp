/// \file
/// Calendars: the next time of a cron expression in a time zone. The library is
/// `tvec-durable-calendar`. It knows nothing of timers or stores.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <optional>
#include <string_view>

#include "tvec/core/detail/export.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// Returns the first time of a rule that lies after `after`, or nullopt if none comes until
/// latest_due. All times are whole seconds, from earliest_due on.
///
/// `zone` is a name of the IANA database, as in /usr/share/zoneinfo, or "" for UTC. `rule` has at
/// most 1000 bytes.
///
/// **Fields** `cron [SECONDS] MINUTES HOURS DAYS MONTHS WEEKDAYS`, separated by spaces. Without
/// SECONDS the second is 0. A seventh field has the years, 1970 to 9999. `cron @hourly` is
/// `0 * * * *`, and there are `@daily` or `@midnight`, `@weekly` (Sunday), `@monthly`, and
/// `@yearly` or `@annually`.
///  - A field is a list of items, separated by commas: a value, a range `a-b`, `*` for all values,
///    or a range or `*` with a step: `*/15`, `8-18/2`. `5/10` goes from 5 to the last value, and is
///    refused in WEEKDAYS, because programs disagree there. `?` means `*` in the fields of days.
///  - MONTHS are 1 to 12 or jan to dec, WEEKDAYS 0 to 7 or sun to sat, in any case. 0 and 7 are
///    Sunday, also in `5#3`. A range does not go backwards, but may end with sun: `fri-sun`.
///  - DAYS may contain `L` (the last day of the month), `L-3` (three days before it), `15W` (the
///    weekday from Monday to Friday that is nearest to the 15th, in the same month) and `LW` (the
///    last of these). A month without that day has no time.
///  - WEEKDAYS may contain `5L` or `friL` (the last Friday of the month) and `5#3` (the third).
///  - Refused are `L` as a weekday and `@reboot`.
///  - If DAYS or WEEKDAYS begins with `*` or `?`, a day must match both fields. If neither does, a
///    day must match one of them, as in cron.
///
/// **Dates to leave out**, such as holidays: a last word `EXDATE=20261225,20270101T090000`. A date
/// leaves out a local day, and a local time what comes then.
///
/// **Clock changes.** A rule is a rhythm if its seconds, minutes or hours begin with `*`, or with a
/// start and a step. A rhythm comes at each instant whose local time matches: in both passes of an
/// hour that comes twice, and never in an hour that is left out. Any other rule comes in the first
/// pass only. Its times in an hour that is left out come once, at the end of that gap.
///
/// Cost: some microseconds for usual rules, including the parser. A search looks at the days of 400
/// years at most, which takes some milliseconds, and only if the rule has no time at all. The first
/// use of a zone in a process reads its file, and later changes of the file are ignored. Safe to
/// call from several threads.
///
/// Throws std::invalid_argument if the rule or the zone cannot be read: it names the part, its text
/// and what was expected.
TVEC_API std::optional<time_point> next_time(std::string_view rule, std::string_view zone,
                                             time_point after);

}  // namespace tvec::durable
