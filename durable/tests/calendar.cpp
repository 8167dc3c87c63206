// Tests the times of cron expressions, in time zones. calendar_model.cpp and
// programs/calendars.py compare many random ones with other searches.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "support/temporary_folder.hpp"
#include "tvec/durable/calendar.hpp"

using namespace std::chrono_literals;
using namespace tvec::durable;

TestSuite(durable_calendar, .timeout = 600);

namespace {

// Reads "2026-03-29 01:00:00" as UTC.
time_point utc(const std::string& text) {
    std::tm t{};
    REQUIRE(strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &t) != nullptr);
    return time_point(std::chrono::seconds(timegm(&t)));
}

std::string shown(std::optional<time_point> t) {
    if (!t) return "none";
    const std::time_t seconds =
        std::chrono::floor<std::chrono::seconds>(*t).time_since_epoch().count();
    std::tm fields{};
    char text[32];
    std::strftime(text, sizeof text, "%F %T", gmtime_r(&seconds, &fields));
    return text;
}

// Returns some times after another one, in UTC, one after the other.
std::string times(const std::string& rule, const std::string& zone, const std::string& after,
                  int count) {
    std::string all;
    std::optional<time_point> at = utc(after);
    for (; count > 0 && at; --count) {
        at = next_time(rule, zone, *at);
        all += (all.empty() ? "" : ", ") + shown(at);
    }
    return all;
}

std::string next(const std::string& rule, const std::string& after) {
    return times(rule, "", after, 1);
}

std::string fault(const std::string& rule, const std::string& zone = "") {
    try {
        static_cast<void>(next_time(rule, zone, earliest_due));
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
    return "none";
}

bool is_refused(const std::string& rule, const std::string& part) {
    const std::string what = fault(rule);
    return what.starts_with(part + ": found ") && what.find(", expected ") != what.npos;
}

const std::string berlin = "Europe/Berlin";
const std::string new_year = "2026-01-01 00:00:00";  // a Thursday

}  // namespace

// --- cron ---------------------------------------------------------------------------------------

Test(durable_calendar, the_next_time_lies_after_the_given_one) {
    CHECK_EQ(next("cron 0 9 * * *", "2026-01-01 08:59:59"), "2026-01-01 09:00:00");
    CHECK_EQ(next("cron 0 9 * * *", "2026-01-01 09:00:00"), "2026-01-02 09:00:00");
    const auto nine = utc("2026-01-01 09:00:00");
    CHECK(next_time("cron 0 9 * * *", "", nine - 1ms) == nine);
    CHECK(next_time("cron 0 9 * * *", "", nine + 1ms) == nine + 24h);
}

Test(durable_calendar, cron_has_five_fields_or_six_with_seconds) {
    CHECK_EQ(next("cron 30 9 12 1 *", new_year), "2026-01-12 09:30:00");
    CHECK_EQ(next("cron 15 30 9 12 1 *", new_year), "2026-01-12 09:30:15");
    CHECK_EQ(next("cron  30\t9  12 1 * ", new_year), "2026-01-12 09:30:00");
}

Test(durable_calendar, cron_reads_names_ranges_lists_and_steps) {
    CHECK_EQ(next("cron 0 9 * * mon-FRI", "2026-01-02 09:00:00"), "2026-01-05 09:00:00");
    CHECK_EQ(next("cron 0 9 1 mar,Jul *", new_year), "2026-03-01 09:00:00");
    CHECK_EQ(times("cron 10-50/20,5 0 1 1 *", "", new_year, 4),
             "2026-01-01 00:05:00, 2026-01-01 00:10:00, 2026-01-01 00:30:00, 2026-01-01 00:50:00");
    CHECK_EQ(times("cron */25 3 * * ?", "", new_year, 4),
             "2026-01-01 03:00:00, 2026-01-01 03:25:00, 2026-01-01 03:50:00, 2026-01-02 03:00:00");
    const std::string sunday = "2026-01-04 00:00:00";
    for (const std::string day : {"0", "7", "sun", "7-7", "sat-sun/2,0"})
        CHECK_EQ(next("cron 0 0 ? * " + day, "2026-01-03 00:00:00"), sunday);
    CHECK_EQ(next("cron 0 0 ? * fri-sun", "2026-01-03 00:00:00"), sunday);
}

Test(durable_calendar, cron_finds_last_days_and_nearest_weekdays) {
    CHECK_EQ(times("cron 0 0 L * *", "", "2028-01-31 00:00:00", 2),
             "2028-02-29 00:00:00, 2028-03-31 00:00:00");
    CHECK_EQ(next("cron 0 0 L-3 2 *", new_year), "2026-02-25 00:00:00");
    CHECK_EQ(next("cron 0 0 LW 1 *", new_year), "2026-01-30 00:00:00");   // the 31st is a Saturday
    CHECK_EQ(next("cron 0 0 15W 2 *", new_year), "2026-02-16 00:00:00");  // a Sunday
    CHECK_EQ(next("cron 0 0 1W 8 *", new_year), "2026-08-03 00:00:00");   // a Saturday
    CHECK_EQ(next("cron 0 0 31W 5 *", new_year), "2026-05-29 00:00:00");  // a Sunday
    CHECK_EQ(next("cron 0 0 31W 1-4 *", "2026-02-01 00:00:00"), "2026-03-31 00:00:00");
}

Test(durable_calendar, cron_finds_the_last_and_the_nth_weekday) {
    CHECK_EQ(next("cron 0 0 * * 5L", new_year), "2026-01-30 00:00:00");
    CHECK_EQ(next("cron 0 0 * * friL", new_year), "2026-01-30 00:00:00");
    CHECK_EQ(next("cron 0 0 * * 6#3", new_year), "2026-01-17 00:00:00");
    CHECK_EQ(next("cron 0 0 * * sun#5", new_year), "2026-03-29 00:00:00");
    CHECK_EQ(next("cron 0 0 * * 7#1", new_year), "2026-01-04 00:00:00");
}

Test(durable_calendar, cron_has_names_starts_of_steps_and_years) {
    CHECK_EQ(next("cron @hourly", new_year), "2026-01-01 01:00:00");
    CHECK_EQ(next("cron @Weekly", new_year), "2026-01-04 00:00:00");
    CHECK_EQ(next("cron @yearly", new_year), "2027-01-01 00:00:00");
    CHECK_EQ(times("cron 5/25 3 * * *", "", new_year, 4),
             "2026-01-01 03:05:00, 2026-01-01 03:30:00, 2026-01-01 03:55:00, 2026-01-02 03:05:00");
    CHECK_EQ(times("cron 0 0 12 29 2 * 2027-2036/3,2040", "", new_year, 3),
             "2036-02-29 12:00:00, 2040-02-29 12:00:00, none");
    CHECK_EQ(next("cron 0 0 0 30 2 * 1970-9999", new_year), "none");
    // A start with a step is a rhythm, as * is: it comes in both passes.
    CHECK_EQ(times("cron 0/30 2 * * *", berlin, "2026-10-24 23:00:00", 4),
             times("cron */30 2 * * *", berlin, "2026-10-24 23:00:00", 4));
}

Test(durable_calendar, dates_and_times_are_left_out) {
    CHECK_EQ(times("cron 0 9 * * mon-fri EXDATE=20260101,20260102T090000", "", new_year, 2),
             "2026-01-05 09:00:00, 2026-01-06 09:00:00");
    // A day with 25 hours, and a time in the hour that its night lacks.
    CHECK_EQ(next("cron * * * * * EXDATE=20261025", "2026-01-01 00:00:00"), "2026-01-01 00:01:00");
    CHECK_EQ(times("cron * * * * * EXDATE=20261025", berlin, "2026-10-24 21:59:00", 1),
             "2026-10-25 23:00:00");
    CHECK_EQ(times("cron 30 2 * * * EXDATE=20260329T023000", berlin, "2026-03-28 12:00:00", 1),
             "2026-03-30 00:30:00");
}

Test(durable_calendar, leaving_days_out_is_no_long_search) {
    std::string rule = "cron * * * * * * EXDATE=20260101";
    for (int day = 2; day <= 31; ++day)
        rule += ",202601" + std::string(day < 10 ? "0" : "") + std::to_string(day);
    CHECK_EQ(next(rule, new_year), "2026-02-01 00:00:00");
}

Test(durable_calendar, one_of_two_restricted_days_is_enough) {
    CHECK_EQ(times("cron 0 0 13 * 5", "", new_year, 4),
             "2026-01-02 00:00:00, 2026-01-09 00:00:00, 2026-01-13 00:00:00, 2026-01-16 00:00:00");
    CHECK_EQ(next("cron 0 0 13 * *", new_year), "2026-01-13 00:00:00");
    CHECK_EQ(next("cron 0 0 ? * 5", new_year), "2026-01-02 00:00:00");
    CHECK_EQ(next("cron 0 0 */2 * 5", new_year), "2026-01-09 00:00:00");  // both
}

Test(durable_calendar, a_rule_without_a_time_ends) {
    CHECK_EQ(next("cron 0 0 30 2 *", new_year), "none");
    CHECK_EQ(next("cron 0 0 31W 2,4,6 *", new_year), "none");
}

Test(durable_calendar, rare_days_are_found) {
    CHECK_EQ(next("cron 0 0 29 2 *", "2096-03-01 00:00:00"), "2104-02-29 00:00:00");
}

Test(durable_calendar, times_lie_between_earliest_and_latest_deadline) {
    CHECK_EQ(next("cron * * * * *", "9999-12-31 23:58:59"), "9999-12-31 23:59:00");
    CHECK_EQ(next("cron * * * * *", "9999-12-31 23:59:00"), "none");
    CHECK_EQ(times("cron 59 23 31 12 *", "America/New_York", "9998-12-31 00:00:00", 2),
             "9999-01-01 04:59:00, none");
    CHECK(next_time("cron * * * * *", "", time_point::min()) == earliest_due);
    CHECK(next_time("cron * * * * *", "", time_point::max()) == std::nullopt);
}

// --- clocks that change -------------------------------------------------------------------------

Test(durable_calendar, times_in_gaps_come_once_at_their_end) {
    const std::string before = "2026-03-29 00:00:00", end = "2026-03-29 01:00:00";
    CHECK_EQ(times("cron 30 2 * * *", berlin, before, 2), end + ", 2026-03-30 00:30:00");
    CHECK_EQ(times("cron 0,15,30 2,3 * * *", berlin, before, 2), end + ", 2026-03-29 01:15:00");
    // Samoa left a day out.
    CHECK_EQ(times("cron 0 9 * * *", "Pacific/Apia", "2011-12-29 19:00:00", 3),
             "2011-12-30 10:00:00, 2011-12-30 19:00:00, 2011-12-31 19:00:00");
}

Test(durable_calendar, ambiguous_times_come_at_their_first_occurrence) {
    CHECK_EQ(times("cron 30 2 * * *", berlin, "2026-10-24 12:00:00", 2),
             "2026-10-25 00:30:00, 2026-10-26 01:30:00");
    CHECK_EQ(times("cron 45 2 * * *", berlin, "2026-10-25 01:30:00", 1), "2026-10-26 01:45:00");
}

Test(durable_calendar, rhythms_come_in_both_passes_and_skip_gaps) {
    for (const std::string rule : {"cron 30 * * * *", "cron 30 */1 * * *"}) {
        CHECK_EQ(times(rule, berlin, "2026-10-25 00:00:00", 3),
                 "2026-10-25 00:30:00, 2026-10-25 01:30:00, 2026-10-25 02:30:00");
        CHECK_EQ(times(rule, berlin, "2026-03-29 00:00:00", 2),
                 "2026-03-29 00:30:00, 2026-03-29 01:30:00");
    }
    CHECK_EQ(times("cron */30 2 * * *", berlin, "2026-10-25 00:00:00", 4),
             "2026-10-25 00:30:00, 2026-10-25 01:00:00, 2026-10-25 01:30:00, 2026-10-26 01:00:00");
    CHECK_EQ(times("cron */30 2 * * *", berlin, "2026-03-29 00:00:00", 1), "2026-03-30 00:00:00");
}

Test(durable_calendar, clocks_change_in_far_years_too) {
    for (const std::string year : {"2039", "2500", "9990"}) {
        CHECK_EQ(times("cron 0 9 1 1,7 *", berlin, year + "-01-02 00:00:00", 1),
                 year + "-07-01 07:00:00");
        CHECK_EQ(times("cron 0 9 1 1 *", berlin, year + "-01-01 00:00:00", 1),
                 year + "-01-01 08:00:00");
    }
}

// --- faults -------------------------------------------------------------------------------------

Test(durable_calendar, a_bad_rule_is_refused_with_an_explanation) {
    CHECK_EQ(fault("cron 61 * * * *"), "minutes: found \"61\", expected a number from 0 to 59");
    CHECK_EQ(fault("cron 0 9 * * * EXDATE=20260230T090000"),
             "EXDATE: found \"20260230T090000\", expected a day that the month has");
    for (const char* rule : {"", "cron", "cronn * * * * *", "every day", "CRON * * * * *",
                             "rrule DTSTART=20260105T090000;FREQ=DAILY"})
        CHECK(is_refused(rule, "rule"));
    CHECK(is_refused("cron " + std::string(996, '*'), "rule"));
    CHECK(is_refused("cron * * * *", "cron"));
    CHECK(is_refused("cron * * * * * * * *", "cron"));
    CHECK(is_refused("cron @reboot", "cron"));
    CHECK(is_refused("cron * * * * * * 1969", "years"));
    CHECK(is_refused("cron 0 9 * * * EXDATE=2026", "EXDATE"));
    CHECK(fault("cron 0 9 * * * EXDATE=2026")
              .ends_with("expected a date such as 20260105, or a local time such as "
                         "20260105T090000"));
    CHECK(is_refused("cron 0 9 * * * EXDATE=20260230", "EXDATE"));
    CHECK(is_refused(std::string("cron \0 * * * *", 14), "minutes"));
    for (const char* minutes : {"-1", "60", "10-5", "*/0", "*/61", "1,,2", ",", "1-", "-", "?", "a",
                                "1x", "99999999999", "+1", "*-5", "/5", "L", "1-5-9", "*/5/5"})
        CHECK(is_refused(std::string("cron ") + minutes + " * * * *", "minutes"));
    for (const char* days :
         {"0", "32", "32W", "W", "L-31", "L-", "LL", "1-5W", "mon", "15L", "?,1"})
        CHECK(is_refused(std::string("cron * * ") + days + " * *", "days of the month"));
    for (const char* months : {"0", "13", "sun", "janu", "L"})
        CHECK(is_refused(std::string("cron * * * ") + months + " *", "months"));
    for (const char* weekdays :
         {"8", "L", "5#6", "5#0", "#1", "5#", "1-5L", "jan", "fri-mon", "5W"})
        CHECK(is_refused(std::string("cron * * * * ") + weekdays, "days of the week"));
}

Test(durable_calendar, a_bad_zone_is_refused) {
    const std::string rule = "cron * * * * *";
    for (const char* name :
         {"Europe/Atlantis", "Europe", "/etc/localtime", "../zoneinfo/UTC", "file:UTC",
          "Fixed/UTC+01:00:00", "libc:localtime", "tzdata.zi", "right/UTC"})
        CHECK(fault(rule, name).starts_with("zone: found \""));
    CHECK(fault(rule, std::string(100'000, 'x')).size() < 200);
    CHECK_EQ(fault(rule, "UTC"), "none");
}

Test(durable_calendar, systems_without_zones_are_told_to_install_tzdata) {
    const support::temporary_folder empty;
    setenv("TZDIR", (empty.name() + "/none").c_str(), 1);
    CHECK(fault("cron * * * * *", "Asia/Tokyo").ends_with(": install tzdata"));
    CHECK_EQ(fault("cron * * * * *", ""), "none");
    unsetenv("TZDIR");
}

Test(durable_calendar, threads_may_ask_at_once) {
    std::vector<std::jthread> threads;
    std::vector<std::string> found(4);
    for (std::string& answer : found)
        threads.emplace_back([&] {
            for (const char* zone : {"Asia/Tokyo", "America/Lima", "Africa/Cairo", "Europe/Rome"})
                answer += times("cron 0 9 * * *", zone, new_year, 20);
        });
    threads.clear();
    for (const std::string& answer : found) CHECK_EQ(answer, found.front());
}
