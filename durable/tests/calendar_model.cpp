// Compares the times of random cron expressions, valid and invalid, with those that a plain search
// finds: day by day, hour by hour, by a reader of its own. TVEC_STEPS is the number of expressions,
// and TVEC_SEED the first of them. Every tenth is in a zone whose clock changes.
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/divergence.hpp"
#include "support/environment.hpp"
#include "tvec/durable/calendar.hpp"

using namespace tvec::durable;
using support::expect;

namespace {

using std::string;
using sys_days = std::chrono::sys_days;
using list = std::vector<string>;

constexpr long long day_length = 86'400;

// --- the plain reader ---------------------------------------------------------------------------

const std::array names{
    list{},
    list{},
    list{},
    list{},
    list{"", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
    list{"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
    list{}};
constexpr std::array lows{0, 0, 0, 1, 1, 0, 1970}, highs{59, 59, 23, 31, 12, 7, 9999};
enum { days_field = 3, weekdays_field = 5, years_field = 6 };

// The fields that names stand for.
const std::map<string, string> nicknames{{"@yearly", "0 0 1 1 *"},  {"@annually", "0 0 1 1 *"},
                                         {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
                                         {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
                                         {"@hourly", "0 * * * *"}};

// Compiling a pattern takes longer than a comparison.
const std::regex& pattern(const char* text) {
    static std::map<string, std::regex> known;
    const auto [at, is_new] = known.try_emplace(text);
    if (is_new) at->second.assign(text);
    return at->second;
}

list parts_of(const string& text, const char* separator) {
    const std::regex& at = pattern(separator);
    list parts(std::sregex_token_iterator(text.begin(), text.end(), at, -1), {});
    if (!text.empty() && std::regex_match(text.substr(text.size() - 1), at)) parts.push_back("");
    return parts;
}

// Returns the value of a word, or -1.
int value_of(std::size_t f, const string& word) {
    for (std::size_t n = 0; n < names[f].size(); ++n)
        if (!word.empty() && names[f][n] == word) return static_cast<int>(n);
    if (!std::regex_match(word, pattern("0*[0-9]{1,6}"))) return -1;
    const int n = std::atoi(word.c_str());
    return n >= lows[f] && n <= highs[f] ? n : -1;
}

struct day_of_search {
    explicit day_of_search(sys_days d) : at(d), ymd(d) {}
    bool is_in(const day_of_search& other) const { return ymd.month() == other.ymd.month(); }
    int number() const { return static_cast<int>(static_cast<unsigned>(ymd.day())); }
    int weekday() const { return static_cast<int>(std::chrono::weekday(at).c_encoding()); }
    day_of_search operator+(int n) const { return day_of_search(at + std::chrono::days(n)); }
    sys_days at;
    std::chrono::year_month_day ymd;
};

int last_number(day_of_search d) {
    while (d.is_in(d + 1)) d = d + 1;
    return d.number();
}

// Returns whether no other day from Monday to Friday of the month is nearer to its n-th day.
bool is_nearest(const day_of_search& d, int n) {
    if (n > last_number(d) || d.weekday() == 0 || d.weekday() == 6) return false;
    for (int i = -31; i <= 31; ++i) {
        const day_of_search other = d + i;
        const bool counts = other.is_in(d) && other.weekday() != 0 && other.weekday() != 6;
        if (counts && std::abs(other.number() - n) < std::abs(d.number() - n)) return false;
    }
    return true;
}

using test = std::function<bool(const day_of_search&, int)>;  // a day, or a value

// Returns the test of an item of a field, or throws.
test item_of(std::size_t f, const string& item) {
    const auto good = [&](bool is_good) {
        if (!is_good) throw std::invalid_argument(item);
    };
    std::smatch m;
    const auto is = [&](const char* form) { return std::regex_match(item, m, pattern(form)); };
    if (f == days_field) {
        if (is("l")) return [](auto& d, int n) { return n == last_number(d); };
        if (is("lw")) return [](auto& d, int) { return is_nearest(d, last_number(d)); };
        if (is("l-([0-9]{1,6})")) {
            const int before = std::stoi(m[1]);
            good(before <= 30);
            return [=](auto& d, int n) { return n + before == last_number(d); };
        }
        if (is("(.*)w")) {
            const int to = value_of(f, m[1]);
            good(to >= 0);
            return [=](auto& d, int) { return is_nearest(d, to); };
        }
    }
    if (f == weekdays_field) {
        if (is("(.*)#0*([1-5])")) {
            const int weekday = value_of(f, m[1]), nth = std::stoi(m[2]);
            good(weekday >= 0);
            return [=](auto& d, int n) {
                int before = 0;  // days of the month with that weekday
                for (auto e = d; e.is_in(d); e = e + -7) ++before;
                return n == weekday % 7 && before == nth;
            };
        }
        if (is("(.*)l")) {
            const int weekday = value_of(f, m[1]);
            good(weekday >= 0);
            return [=](auto& d, int n) { return n == weekday % 7 && !d.is_in(d + 7); };
        }
    }
    good(is("([^/]*)(?:/([0-9]{1,6}))?"));
    const int step = m[2].matched ? std::stoi(m[2]) : 1;
    const string range = m[1];
    good(step >= 1 && step <= highs[f] - lows[f] + 1);
    int first = lows[f], last = highs[f];
    if (range != "*") {
        good(std::regex_match(range, m, pattern("([^-]*)(?:-(.*))?")));
        const bool has_step = item.find('/') != item.npos;
        good(m[2].matched || !has_step || f != weekdays_field);
        first = value_of(f, m[1]);
        last = m[2].matched ? value_of(f, m[2]) : has_step ? highs[f] : first;
        if (f == weekdays_field && m[2].matched && last == 0 && first > 0) last = 7;
        good(first >= 0 && last >= first);
    }
    return [=](auto&, int n) {
        const auto has = [=](int v) { return v >= first && v <= last && (v - first) % step == 0; };
        return has(n) || (f == weekdays_field && n == 0 && has(7));
    };
}

struct expression {
    explicit expression(string text) {
        for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (const auto found = nicknames.find(text); found != nicknames.end()) text = found->second;
        list words;
        for (const string& word : parts_of(text, "[ \t]"))
            if (!word.empty()) words.push_back(word);
        if (words.size() == 5) words.insert(words.begin(), "0");
        if (words.size() != 6 && words.size() != 7) throw std::invalid_argument("fields");
        for (std::size_t f = 0; f < words.size(); ++f) {
            const bool is_day = f == days_field || f == weekdays_field;
            starred[f] = words[f][0] == '*' || words[f][0] == '?';
            repeated[f] = starred[f] || std::regex_match(words[f], pattern("[^,/-]*/.*"));
            if (is_day && words[f] == "?") words[f] = "*";
            for (const string& item : parts_of(words[f], ",")) items[f].push_back(item_of(f, item));
        }
        for (std::size_t f = 0; f < 3; ++f)
            for (int n = 0; n < 60; ++n)
                if (matches(f, day_of_search(sys_days()), n)) times[f].push_back(n);
    }
    bool matches(std::size_t f, const day_of_search& d, int n) const {
        return std::ranges::any_of(items[f], [&](const test& t) { return t(d, n); });
    }
    bool matches(const day_of_search& d) const {
        if (!items[years_field].empty() && !matches(years_field, d, int(d.ymd.year())))
            return false;
        if (!matches(4, d, static_cast<int>(static_cast<unsigned>(d.ymd.month())))) return false;
        const bool by_day = matches(3, d, d.number()), by_weekday = matches(5, d, d.weekday());
        return starred[3] || starred[5] ? by_day && by_weekday : by_day || by_weekday;
    }
    bool is_rhythm() const { return repeated[0] || repeated[1] || repeated[2]; }

    std::array<std::vector<test>, 7> items{};
    std::array<bool, 7> starred{}, repeated{};
    std::array<std::vector<int>, 3> times{};  // seconds, minutes, hours
};

// --- the plain search ---------------------------------------------------------------------------

// The clock of Berlin since 1996, in seconds since 1970: an hour ahead, and two in summer.
struct berlin {
    static long long last_sunday_at_one(std::chrono::year y, unsigned month) {
        sys_days d(y / std::chrono::month(month) / 31);
        while (std::chrono::weekday(d) != std::chrono::Sunday) d -= std::chrono::days(1);
        return d.time_since_epoch().count() * day_length + 3600;
    }
    static long long begin_of_summer(long long near) { return last_sunday_at_one(year(near), 3); }
    static long long ahead(long long t) {
        const bool is_summer = t >= begin_of_summer(t) && t < last_sunday_at_one(year(t), 10);
        return is_summer ? 7200 : 3600;
    }
    // Returns the instants of a local time, in order.
    static std::vector<long long> instants(long long local) {
        std::vector<long long> found;
        for (const long long t : {local - 7200, local - 3600})
            if (t + ahead(t) == local) found.push_back(t);
        return found;
    }
    static std::chrono::year year(long long t) {
        const sys_days d(std::chrono::days(t / day_length));
        return std::chrono::year_month_day(d).year();
    }
};

// Instants that a rule leaves out, and local days.
struct left_out {
    std::vector<long long> times{}, days{};
};

long long local_time(bool in_berlin, long long t) { return in_berlin ? t + berlin::ahead(t) : t; }

// Returns the first instant after `after` at which a rule comes on a local day.
std::optional<long long> on(const expression& e, const day_of_search& d, bool in_berlin,
                            long long after, const left_out& out) {
    std::optional<long long> best;
    const auto take = [&](long long t) {
        const bool is_out = std::ranges::count(out.times, t) > 0 ||
                            std::ranges::count(out.days, local_time(in_berlin, t) / day_length) > 0;
        if (t > after && !is_out && (!best || t < *best)) best = t;
    };
    for (const int h : e.times[2])
        for (const int m : e.times[1])
            for (const int s : e.times[0]) {
                const long long local =
                    d.at.time_since_epoch().count() * day_length + h * 3600 + m * 60 + s;
                if (!in_berlin) {
                    take(local);
                    if (best) return best;
                    continue;
                }
                const auto all = berlin::instants(local);
                if (e.is_rhythm())
                    for (const long long t : all) take(t);
                else
                    take(all.empty() ? berlin::begin_of_summer(local) : all.front());
            }
    return best;
}

constexpr int days_of_search = 366 * 9;

// Returns the first time after `after`, if it comes within some years.
std::optional<long long> first_of(const expression& e, bool in_berlin, long long after,
                                  const left_out& out = {}) {
    day_of_search d(sys_days(std::chrono::days(after / day_length)));
    for (int i = 0; i < days_of_search; ++i, d = d + 1)
        if (e.matches(d))
            if (const auto found = on(e, d, in_berlin, after, out)) return found;
    return std::nullopt;
}

// --- random expressions -------------------------------------------------------------------------

class writer {
public:
    explicit writer(std::uint64_t seed) : random_(seed) {}

    int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    bool one_in(int n) { return below(n) == 0; }

    string rule() {
        if (one_in(50)) return std::next(nicknames.begin(), below(7))->first;
        string text;
        const bool has_years = one_in(8);
        for (std::size_t f = one_in(2) || has_years ? 0 : 1; f < 6; ++f)
            text += (one_in(50) ? "\t " : " ") + field(f);
        if (has_years) text += " " + years();
        if (one_in(6)) spoil(text);
        return text;
    }

private:
    string years() {
        const int first = 1998 + below(40);
        string text = std::to_string(first);
        if (one_in(2)) text += "-" + std::to_string(first + below(9));
        if (one_in(3)) text += "/" + std::to_string(1 + below(5));
        return one_in(3) ? text + "," + std::to_string(2000 + below(40)) : text;
    }
    string field(std::size_t f) {
        if (one_in(f < 3 ? 5 : 2)) return one_in(9) ? "?" : "*";
        string text = item(f);
        while (one_in(3)) text += "," + item(f);
        return text;
    }
    string item(std::size_t f) {
        if (f == days_field && one_in(3)) {
            const string forms[] = {"L", "lw", "L-" + std::to_string(below(one_in(9) ? 40 : 30)),
                                    value(f) + (one_in(2) ? "W" : "w")};
            return forms[below(4)];
        }
        if (f == weekdays_field && one_in(3))
            return value(f) + (one_in(2) ? "L" : "#" + std::to_string(below(5) + 1 + one_in(20)));
        if (one_in(3)) return value(f);
        string text = one_in(3) ? "*" : one_in(4) ? value(f) : range(f);
        if (one_in(2))
            text += "/" + std::to_string(1 + below(one_in(30) ? 70 : highs[f] - lows[f]));
        return text;
    }
    string range(std::size_t f) {
        const int first = lows[f] + below(highs[f] - lows[f] + 1);
        const int last = first + below(highs[f] - first + 1) - one_in(30);
        return word(f, first) + "-" + word(f, last);
    }
    string value(std::size_t f) {
        if (one_in(90)) return std::to_string(highs[f] + 1);
        return word(f, lows[f] + below(highs[f] - lows[f] + 1));
    }
    // A number, or its name.
    string word(std::size_t f, int n) {
        const bool has_name = n >= 0 && n < static_cast<int>(names[f].size());
        if (!has_name || one_in(2)) return (one_in(20) ? "0" : "") + std::to_string(n);
        string name = names[f][static_cast<std::size_t>(n)];
        if (one_in(2) && !name.empty()) name[0] = static_cast<char>(std::toupper(name[0]));
        return name;
    }
    void spoil(string& text) {
        const string characters = "0123456789*?/-,#LWlwa \t:.jn";
        const auto at = static_cast<std::size_t>(below(static_cast<int>(text.size())));
        const char c =
            characters[static_cast<std::size_t>(below(static_cast<int>(characters.size())))];
        if (one_in(3))
            text.erase(at, 1);
        else if (one_in(2))
            text[at] = c;
        else
            text.insert(at, 1, c);
    }

    std::mt19937_64 random_;
};

// Returns the local time of an instant, as EXDATE has it, or its day.
string stamp(long long local, bool whole_day) {
    const std::chrono::sys_seconds t{std::chrono::seconds(local)};
    const std::chrono::year_month_day d(std::chrono::floor<std::chrono::days>(t));
    const int second = static_cast<int>(local % day_length);
    char text[32];
    std::snprintf(text, sizeof text, whole_day ? "%04d%02u%02u" : "%04d%02u%02uT%02d%02d%02d",
                  int(d.year()), unsigned(d.month()), unsigned(d.day()), second / 3600,
                  second / 60 % 60, second % 60);
    return text;
}

// Leaves the first time of a rule out, or its day. Returns what that adds to the text.
string leave_out(writer& w, const expression& e, bool in_berlin, long long after, left_out& out) {
    const auto first = first_of(e, in_berlin, after);
    if (!first) return " EXDATE=20200101";
    const bool whole_day = w.one_in(2);
    const long long local = local_time(in_berlin, *first);
    if (whole_day)
        out.days.push_back(local / day_length);
    else
        out.times = in_berlin ? berlin::instants(local) : std::vector{local};
    return " EXDATE=" + stamp(local, whole_day);
}

struct tally {
    int refused = 0;
    int without_time = 0;
};

void compare(std::uint64_t seed, tally& sum) {
    writer w(seed);
    string text = w.rule();
    const bool in_berlin = seed % 10 == 0;
    long long after = 946'684'800 + w.below(1'000'000'000);  // from 2000 on
    if (in_berlin && w.one_in(2)) {                          // near a change
        const auto y = std::chrono::year(2000 + w.below(60));
        after = berlin::last_sunday_at_one(y, w.one_in(2) ? 3 : 10) - 9000 + w.below(18'000);
    }
    std::optional<expression> e;
    try {
        e.emplace(text);
    } catch (const std::invalid_argument&) {
    }
    left_out out;
    if (e && w.one_in(4)) text += leave_out(w, *e, in_berlin, after, out);
    std::optional<time_point> found;
    try {
        found = next_time("cron " + text, in_berlin ? "Europe/Berlin" : "",
                          time_point(std::chrono::seconds(after)));
        expect(e.has_value(), "accepted:", text);
    } catch (const std::invalid_argument& fault) {
        expect(!e, text, ": ", fault.what());
        ++sum.refused;
        return;
    }
    const auto wanted = first_of(*e, in_berlin, after, out);
    const long long got = found ? found->time_since_epoch().count() / 1000 : -1;
    if (wanted)
        expect(got == *wanted, text, " after ", after, ": ", got, ", expected ", *wanted);
    else
        expect(!found || got > after + (days_of_search - 2) * day_length, text, " after ", after,
               ": ", got, ", expected none for years");
    sum.without_time += !wanted;
}

}  // namespace

int main() try {
    const auto steps = support::from_environment("TVEC_STEPS", 40'000);
    const auto seed = support::from_environment("TVEC_SEED", 1);
    tally sum;
    for (std::uint64_t i = 0; i < steps; ++i) compare(seed + i, sum);
    std::printf("%llu expressions agree; %d were refused, %d have no time for years\n",
                static_cast<unsigned long long>(steps), sum.refused, sum.without_time);
    return 0;
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
