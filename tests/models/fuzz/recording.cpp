// Fuzzes the reader of recordings against a second reader written from the format's description
// alone. The input is operations from the bytes behind a valid or nearly valid header, or a file of
// any bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>

#include "../../../bench/workloads/recording.hpp"
#include "support/divergence.hpp"

namespace {

using bench::recording;
using example::operation;
using example::recording_header;
using support::expect;

// Counts the operations of these bytes, valid or not.
struct operations {
    std::vector<recording::step> steps;
    std::uint64_t timers = 0;
    std::uint64_t now = 0;
    bool are_sound = true;
};

std::uint64_t varint(std::string_view& bytes, bool& is_sound) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < 8 && !bytes.empty(); ++i) {
        const auto byte = static_cast<unsigned char>(bytes.front());
        bytes.remove_prefix(1);
        value += std::uint64_t{byte & 0x7fu} << (7 * i);
        if (byte < 0x80) return value;
    }
    is_sound = false;
    return value;
}

void read_one(std::string_view& bytes, operations& all) {
    const std::uint64_t first = varint(bytes, all.are_sound);
    const std::uint64_t value = first >> 2;
    const auto what = static_cast<operation>(first % 4);
    recording::step step{what, 0, 0};
    if (what == operation::advance) {
        all.are_sound &= value <= 1'000'000'000 && all.now + value <= 1'000'000'000;
        step.tick = all.now += value;
    } else {
        all.are_sound &= value <= all.timers && first % 4 != 3;
        all.timers += value == all.timers;
        step.timer = static_cast<std::uint32_t>(value);
    }
    if (what == operation::arm) {
        const std::uint64_t delay = varint(bytes, all.are_sound);
        all.are_sound &= delay >= 1 && delay <= std::uint64_t{1} << 31;
        step.tick = all.now + delay;
    }
    all.steps.push_back(step);
}

operations read_plainly(std::string_view bytes) {
    operations all;
    while (!bytes.empty()) read_one(bytes, all);
    return all;
}

// In memory, but with a file name.
class file {
public:
    file() : fd_(::memfd_create("recording", MFD_CLOEXEC)) { expect(fd_ >= 0, "no memfd"); }

    std::string name() const { return "/proc/self/fd/" + std::to_string(fd_); }
    void write(const std::string& bytes) const {
        expect(::ftruncate(fd_, 0) == 0, "ftruncate");
        expect(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
               "pwrite");
    }

private:
    int fd_;
};

std::optional<recording> read(const std::string& bytes) {
    static const file memory;
    memory.write(bytes);
    try {
        return recording(memory.name());
    } catch (const std::runtime_error& e) {
        const std::string said = e.what();
        expect(said.starts_with(memory.name() + ": ") && said.find('\n') == said.npos, said);
        return std::nullopt;
    }
}

std::string with_header(const recording_header& header, std::string_view body) {
    std::string bytes(sizeof header, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes.append(body);
}

void compare(const recording& r, const operations& plain) {
    expect(r.steps().size() == plain.steps.size(), "steps: ", r.steps().size());
    expect(r.ticks() == plain.now, "ends at ", r.ticks());
    for (std::size_t i = 0; i < plain.steps.size(); ++i) {
        const auto &a = r.steps()[i], &b = plain.steps[i];
        expect(a.what == b.what && a.timer == b.timer && a.tick == b.tick, "step ", i);
    }
}

// A valid header, or one with a wrong field.
void read_behind_header(unsigned wrong, std::string_view body) {
    const operations plain = read_plainly(body);
    recording_header header;
    header.magic = recording_header::the_magic;
    header.bytes = body.size() + (wrong == 1);
    header.operations = plain.steps.size() + (wrong == 2);
    header.timers = plain.timers + (wrong == 3) - (wrong == 4);
    header.version += wrong == 5;
    const auto taken = read(with_header(header, body));
    expect(taken.has_value() == (plain.are_sound && wrong == 0), "taken: ", taken.has_value());
    if (taken) compare(*taken, plain);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    if (data[0] % 8 < 6)
        read_behind_header(data[0] % 8, rest);
    else
        read(std::string(rest));
    return 0;
}
