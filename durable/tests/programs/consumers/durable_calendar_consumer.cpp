// A program that uses installed libtvec-durable-calendar. Exits with 0 if a rule has its next time.
#include <tvec/durable/calendar.hpp>

#include <cstdio>

int main() {
    using namespace tvec::durable;
    const auto next = next_time("cron 0 9 * * *", "Asia/Tokyo", earliest_due);  // 9:00 there
    std::puts(next ? "a next time" : "no next time");
    return next == earliest_due + std::chrono::hours(24) ? 0 : 1;
}
