// A run that fails, as a story: who has done what, on which line, which write was read, and which
// newer one was not.
#include <cstdio>
#include <fstream>

#include "model.hpp"

namespace orders {

namespace {

std::string line_of(at where) {
    std::ifstream file(where.file);
    std::string text;
    for (int i = 0; i < where.line; ++i) std::getline(file, text);
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? "" : text.substr(begin);
}

std::string spot(at where) {
    const std::string file = where.file;
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line);
}

std::string number(word value) {
    char text[24];
    std::snprintf(text, sizeof text, value < 10 ? "%llu" : "%#llx",
                  static_cast<unsigned long long>(value));
    return text;
}

std::string origin(const write& w) {
    if (w.thread == 0) return number(w.value) + " of the set-up";
    return number(w.value) + " of " + run.threads[w.thread].name + ", " + spot(w.where);
}

std::string deed(const step& s) {
    if (s.how == act::notify) return "notifies";
    if (!s.read) return "writes " + number(s.written->value);
    const std::string read = "reads " + number(s.read->value);
    return s.written ? read + ", writes " + number(s.written->value) : read;
}

std::string told(const step& s) {
    char text[200];
    std::snprintf(text, sizeof text, "  %-9s %-36s %-21s ", run.threads[s.thread].name,
                  deed(s).c_str(), spot(s.where).c_str());
    const std::string line = text + line_of(s.where) + "\n", indented(12, ' ');
    if (s.read && s.read != s.newest)
        return line + indented + "This is old: " + origin(*s.read) + ". Newer is " +
               origin(*s.newest) + ", of which " + run.threads[s.thread].name +
               " has acquired nothing.\n";
    if (!s.read && s.written && s.newest->position > s.written->position)
        return line + indented + "This comes before " + origin(*s.newest) + ".\n";
    return line;
}

}  // namespace

std::string tell() {
    std::string story;
    for (unsigned i = 0; i < run.step_count; ++i) story += told(run.steps[i]);
    return story + "  Then " + run.why + ".\n";
}

}  // namespace orders
