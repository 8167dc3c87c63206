/// \file
/// The thread that a wheel belongs to, for the assertions of debug builds.
#pragma once

#include <cerrno>

namespace tvec::detail {

/// Returns an address that no other thread alive has. All code loaded into the program gets the
/// same one: the address of thread-local storage, in one instruction where compilers have it,
/// otherwise that of errno.
inline const void* this_thread() noexcept {
#if defined(__ELF__) && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
    return __builtin_thread_pointer();
#else
    return &errno;
#endif
}

/// The home: none until a thread advances the wheel. Release builds have the member too and do not
/// use it: a wheel has the same layout for a program and for a library with other build options.
class home_thread {
public:
    /// Makes the calling thread the home if there is none. Returns whether it is the home.
    bool adopt_caller() noexcept {
        if (home_ == nullptr) home_ = this_thread();
        return home_ == this_thread();
    }

    /// Returns whether the calling thread is the home, or there is none.
    bool admits_caller() const noexcept { return home_ == nullptr || home_ == this_thread(); }

private:
    const void* home_ = nullptr;
};

}  // namespace tvec::detail
