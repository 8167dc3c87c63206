// Inspection of a wheel by programs in C. Not in wheel.cpp: a program that does not use it is
// smaller with the static library.
#include <cassert>

#include "casts.hpp"
#include "tvec/inspect/detail/dump.hpp"
#include "tvec/inspect/detail/fault.hpp"

using tvec::c::as_cpp;

size_t tvec_check(const tvec_wheel* wheel, char* memory, size_t size) {
    assert((memory || size == 0) && "memory for the text");
    tvec::detail::bounded all(memory, size);
    tvec::detail::text(all) << tvec::detail::first_fault(as_cpp(wheel)).c_str();
    return all.length();
}

size_t tvec_dump(const tvec_wheel* wheel, size_t timers, char* memory, size_t size) {
    assert((memory || size == 0) && "memory for the text");
    tvec::detail::bounded all(memory, size);
    tvec::detail::write_dump(all, as_cpp(wheel), timers);
    return all.length();
}
