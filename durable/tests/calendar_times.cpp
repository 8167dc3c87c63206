// Prints times of rules, for programs/calendars.py. Each line of the input is
// ZONE|AFTER|COUNT|RULE, with AFTER in milliseconds since 1970. Each line of the output has up to
// COUNT times in seconds since 1970, or a fault.
#include <chrono>
#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "tvec/durable/calendar.hpp"

using namespace tvec::durable;

namespace {

std::string times(const std::string& rule, const std::string& zone, long long after, int count) {
    std::ostringstream out;
    std::optional<time_point> at = time_point(duration(after));
    for (; count > 0 && (at = next_time(rule, zone, *at)); --count)
        out << at->time_since_epoch().count() / 1000 << ' ';
    return out.str();
}

}  // namespace

int main() {
    std::string zone, after, count, rule;
    while (std::getline(std::getline(std::cin, zone, '|'), after, '|') &&
           std::getline(std::getline(std::cin, count, '|'), rule)) {
        try {
            std::cout << times(rule, zone, std::stoll(after), std::stoi(count)) << std::endl;
        } catch (const std::exception& e) {
            std::cout << "fault: " << e.what() << std::endl;
        }
    }
}
