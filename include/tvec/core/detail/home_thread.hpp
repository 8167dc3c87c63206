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

/// The home: none until a thread advances the wheel, or every thread if the wheel is shared.
/// Release builds have the member too and do not use it: a wheel has the same layout for a program
/// and for a library with other build options.
class home_thread {
public:
    /// Makes the calling thread the home if there is none. No-op in a release build.
    void adopt_caller() noexcept {
#ifndef NDEBUG
        if (home_ == nullptr) home_ = this_thread();
#endif
    }

    /// Returns whether the calling thread is the home, or there is none, or every thread is.
    bool admits_caller() const noexcept {
        return home_ == nullptr || home_ == this_thread() || admits_all();
    }

    /// Admits every thread from now on.
    void admit_all() noexcept { home_ = this; }
    bool admits_all() const noexcept { return home_ == this; }

private:
    const void* home_ = nullptr;  ///< its own address: no thread has it
};

}  // namespace tvec::detail
