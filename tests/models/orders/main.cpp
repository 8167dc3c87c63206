// usage: orders [NAME...] [--list] [--sequential] [--weaken FILE:LINE:ACT:HALF:ORDER]...
//
// Searches the runs of all programs, or of those with these names. The shortest run that fails is
// told as a story. ACT is one of l s x a o p c w, HALF is s or f (of a compare that fails), ORDER
// is relaxed, acquire or release. Returns 1 if a program fails.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "model.hpp"

namespace {

using orders::named_program;

constexpr int most_preemptions = 2;

// With ever more preemptions if it fails, so that the first run that fails is short.
orders::outcome search(const named_program& p, orders::settings s) {
    orders::bell::carries = p.bell_carries;
    s.preemptions = p.preemptions;
    orders::outcome o;
    if (s.weakened.empty() && !p.is_seen)
        if (orders::outcome all = orders::explore(p.set_up, s); !all.fails) return all;
    for (s.preemptions = 0; s.preemptions <= most_preemptions && !o.fails; ++s.preemptions)
        o = orders::explore(p.set_up, s);
    return o;
}

// Returns whether it is as it must be.
bool judge(const named_program& p, const orders::settings& s) {
    const auto begun = std::clock();
    const orders::outcome o = search(p, s);
    const bool is_right = o.fails == p.is_seen;
    std::printf("%-54s %s, %llu states, %.1f s\n", p.name,
                !is_right   ? "FAILS"
                : p.is_seen ? "seen"
                            : "holds",
                static_cast<unsigned long long>(o.states),
                double(std::clock() - begun) / CLOCKS_PER_SEC);
    if (!is_right && o.fails)
        std::printf("after %u steps: %s\n%s", o.steps, o.why.c_str(), o.story.c_str());
    return is_right;
}

orders::weaker parsed(const char* option) {
    char file[100], how = 0, half = 0, order[10];
    int line = 0;
    if (std::sscanf(option, "%99[^:]:%d:%c:%c:%9s", file, &line, &how, &half, order) != 5) {
        std::fprintf(stderr, "orders: %s is not FILE:LINE:ACT:HALF:ORDER\n", option);
        std::exit(2);
    }
    return {file, line, static_cast<orders::act>(how), half == 'f',
            std::strcmp(order, "acquire") == 0   ? std::memory_order_acquire
            : std::strcmp(order, "release") == 0 ? std::memory_order_release
                                                 : std::memory_order_relaxed};
}

}  // namespace

int main(int argc, char** argv) {
    orders::settings s;
    std::vector<std::string> names;
    bool lists = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--list")
            lists = true;
        else if (word == "--sequential")
            s.sequential = true;
        else if (word == "--weaken" && i + 1 < argc)
            s.weakened.push_back(parsed(argv[++i]));
        else
            names.push_back(word);
    }
    std::vector<named_program> all = orders::litmus_tests();
    for (const auto& more : {orders::mailbox_programs(), orders::other_programs()})
        all.insert(all.end(), more.begin(), more.end());
    bool all_right = true;
    std::size_t found = 0;
    for (const named_program& p : all) {
        if (!names.empty() && std::find(names.begin(), names.end(), p.name) == names.end())
            continue;
        ++found;
        if (lists)
            std::puts(p.name);
        else
            all_right = judge(p, s) && all_right;
    }
    if (found < names.size())
        std::fprintf(stderr, "orders: no program has that name: see --list\n");
    return found < names.size() ? 2 : all_right ? 0 : 1;
}
