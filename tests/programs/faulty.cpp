// usage: faulty overrun | overflow | leak
//
// Does what sanitizers report. A build with them in which this succeeds would test nothing.
#include <climits>
#include <cstdlib>
#include <string_view>

namespace {

// Volatile, so that no compiler sees the faults.
volatile int last = 3;
volatile int most = INT_MAX;
int* volatile kept = nullptr;

void overrun() {
    auto* const four = static_cast<volatile int*>(std::calloc(4, sizeof(int)));
    four[last + 1] = 1;
    kept = const_cast<int*>(four);
    std::free(kept);
}

void overflow() { most = most + 1; }

void leak() {
    kept = static_cast<int*>(std::malloc(sizeof(int)));
    kept = nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view fault = argc > 1 ? argv[1] : "";
    if (fault == "overrun") overrun();
    if (fault == "overflow") overflow();
    if (fault == "leak") leak();
    return 0;
}
