// A game that is saved, and goes on in a new process: its clock, its wheel and its own state. The
// process that loads it runs to the same end as the one that saved it.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "tvec/tvec.hpp"

namespace {

using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
using tick = frame;

class game {
public:
    void begin() {
        for (std::size_t i = 0; i < spawns_.size(); ++i)
            timers_.arm_after(spawns_[i], frame(1 + i % 90));
    }
    void play(int frames) {
        for (int i = 0; i < frames; ++i) {
            clock_.step(frame(1));
            timers_.run();
        }
    }
    std::uint64_t history() const { return history_; }

    // [saved]
    // All numbers that a game in another process needs.
    std::vector<std::uint64_t> save() const {
        tvec::snapshot timers;
        timers.capture(timers_.wheel(),
                       [this](const tvec::timer& t) { return &t - spawns_.data(); });
        std::vector<std::uint64_t> saved = timers.save();
        saved.push_back(static_cast<std::uint64_t>(clock_.now().time_since_epoch().count()));
        saved.push_back(history_);
        saved.push_back(tick::period::den);  // a tick belongs to the rate
        return saved;
    }
    bool load(std::vector<std::uint64_t> saved) {
        if (saved.size() < 3 || saved.back() != tick::period::den) return false;  // other ticks
        const std::uint64_t now = saved[saved.size() - 3], history = saved[saved.size() - 2];
        saved.resize(saved.size() - 3);
        tvec::snapshot timers;
        if (!timers.load(saved)) return false;  // damaged, or of a version with other places
        using time_point = tvec::game_clock<>::time_point;
        clock_.set(time_point(time_point::duration(static_cast<std::int64_t>(now))));
        timers.restore(timers_.wheel(), [this](std::uint64_t id) { return &spawns_[id]; });
        history_ = history;
        return true;
    }
    // [saved]

private:
    void on_spawn(tvec::timer& t) {
        const auto i = static_cast<std::uint64_t>(&t - spawns_.data());
        history_ = history_ * 31 + i;  // depends on each spawn, and on their order
        timers_.arm_after(t, frame(1 + history_ % 300));
    }

    tvec::game_clock<> clock_;  // never resumed, so neither its speed nor its pause need be saved
    tvec::clocked_wheel<tvec::game_ticks<tick>> timers_{tvec::game_ticks<tick>(clock_)};
    std::array<tvec::timer, 200> spawns_{tvec::call_each<&game::spawns_, &game::on_spawn>()};
    std::uint64_t history_ = 0;
};

constexpr int until_saved = 300, rest = 600;

bool write(const std::string& to, const std::vector<std::uint64_t>& numbers) {
    std::ofstream file(to);
    for (const std::uint64_t n : numbers) file << n << '\n';
    return static_cast<bool>(file.flush());
}
std::vector<std::uint64_t> read(const std::string& from) {
    std::ifstream file(from);
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t n = 0; file >> n;) numbers.push_back(n);
    return numbers;
}

// In the new process.
int go_on(const std::string& file) {
    game loaded;
    if (!loaded.load(read(file))) return 1;
    loaded.play(rest);
    return write(file, {loaded.history()}) ? 0 : 1;
}

// Runs this program again, to load the game.
bool go_on_elsewhere(const std::string& file) {
    const pid_t child = fork();
    if (child == 0) {
        setenv("SAVED_GAME", file.c_str(), 1);
        execl("/proc/self/exe", "saved_game", nullptr);
        _exit(1);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main() {
    if (const char* const file = std::getenv("SAVED_GAME")) return go_on(file);
    game played;
    played.begin();
    played.play(until_saved);
    std::vector<std::uint64_t> of_another_rate = played.save();
    of_another_rate.back() = 72;
    if (game().load(of_another_rate)) return 1;

    std::string file = (std::filesystem::temp_directory_path() / "saved_game.XXXXXX").string();
    const int made = mkstemp(file.data());
    if (made < 0 || close(made) != 0 || !write(file, played.save())) return 1;

    const bool went_on = go_on_elsewhere(file);
    const std::vector<std::uint64_t> end = went_on ? read(file) : std::vector<std::uint64_t>{};
    unlink(file.c_str());
    played.play(rest);
    std::printf("%llx here, %llx there\n", static_cast<unsigned long long>(played.history()),
                static_cast<unsigned long long>(end.empty() ? 0 : end[0]));
    return end.size() == 1 && end[0] == played.history() ? 0 : 1;
}
