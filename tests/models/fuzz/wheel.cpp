// Fuzzes the wheel: any bytes are a program (support/program.hpp), run beside a model of the wheel
// (support/world.hpp). The mutator changes whole operations and prefers edge values.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "support/plain_array.hpp"
#include "support/world.hpp"

namespace {

using support::operation;
using support::program;

// Prints the amount of work at the end.
struct work : support::tally {
    ~work() {
        std::fprintf(stderr, "fuzz: %llu operations on the wheel, %llu fires\n",
                     static_cast<unsigned long long>(operations),
                     static_cast<unsigned long long>(fired));
    }
} done;

class mutator {
public:
    mutator(program& p, unsigned seed)
        : operations_(p.operations), start_(p.start), random_(seed) {}

    void mutate() {
        for (auto n = 1 + below(4); n-- > 0;) mutate_once();
    }

private:
    void mutate_once() {
        if (operations_.empty()) return insert();
        switch (below(8)) {
        case 0:
            return insert();
        case 1:
            return erase();
        case 2:
            return repeat();
        case 3:
            return change_a_byte();
        case 4:
            return set_to_an_edge();
        case 5:
            return std::swap(any(), any());
        case 6:
            any().who = any().who;  // the same timer again
            return;
        default:
            any().span = any().span;  // the same distance again
            if (below(8) == 0) start_ = static_cast<std::uint8_t>(random_());
            return;
        }
    }

    std::size_t below(std::size_t n) { return random_() % n; }
    operation& any() { return operations_[below(operations_.size())]; }
    auto somewhere() { return operations_.begin() + static_cast<long>(below(operations_.size())); }

    operation any_new() {
        const auto bits =
            static_cast<std::uint32_t>(random_()) ^ static_cast<std::uint32_t>(random_()) << 16;
        operation op;
        std::memcpy(&op, &bits, sizeof op);
        return op;
    }

    void insert() {
        operations_.insert(operations_.begin() + static_cast<long>(below(operations_.size() + 1)),
                           any_new());
    }

    void erase() {
        const auto first = somewhere();
        const auto most = static_cast<std::size_t>(operations_.end() - first);
        operations_.erase(first,
                          first + static_cast<long>(1 + below(std::min<std::size_t>(most, 8))));
    }

    void repeat() {
        const auto first = somewhere();
        const auto most = static_cast<std::size_t>(operations_.end() - first);
        const std::vector<operation> copy(
            first, first + static_cast<long>(1 + below(std::min<std::size_t>(most, 8))));
        operations_.insert(somewhere(), copy.begin(), copy.end());
    }

    void change_a_byte() {
        auto* const bytes = reinterpret_cast<std::uint8_t*>(operations_.data());
        bytes[below(operations_.size() * sizeof(operation))] = static_cast<std::uint8_t>(random_());
    }

    void set_to_an_edge() {
        static constexpr std::array<std::uint8_t, 20> spans{
            0, 1, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33, 62, 96, 112, 115, 160, 192, 200, 210};
        static constexpr std::array<std::uint8_t, 6> offsets{0, 1, 2, 128, 254, 255};
        operation& op = any();
        op.span = spans[below(spans.size())];
        op.offset = offsets[below(offsets.size())];
    }

    std::vector<operation>& operations_;
    std::uint8_t& start_;
    std::minstd_rand random_;
};

}  // namespace

extern "C" {

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed);
std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t one_size,
                                      const std::uint8_t* other, std::size_t other_size,
                                      std::uint8_t* out, std::size_t max_size, unsigned seed);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const program p = program::from({data, size});
    try {
        support::run<support::plain_array>(p, 32, done);
    } catch (const support::divergence& e) {
        std::fprintf(stderr, "the wheel and its model differ: %s\n", e.what());
        std::abort();
    }
    return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed) {
    program p = program::from({data, size});
    mutator(p, seed).mutate();
    return p.to({data, max_size});
}

// The beginning of one program and the end of another.
std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t one_size,
                                      const std::uint8_t* other, std::size_t other_size,
                                      std::uint8_t* out, std::size_t max_size, unsigned seed) {
    program p = program::from({one, one_size});
    const program q = program::from({other, other_size});
    std::minstd_rand random(seed);
    p.operations.resize(random() % (p.operations.size() + 1));
    const auto from = static_cast<long>(random() % (q.operations.size() + 1));
    p.operations.insert(p.operations.end(), q.operations.begin() + from, q.operations.end());
    return p.to({out, max_size});
}

}  // extern "C"
