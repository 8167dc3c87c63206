/// \file
/// Which thread a wheel belongs to: for the assertions of debug builds.
#pragma once

#include <cerrno>

namespace tvec::detail {

/// An address that no other thread alive has, the same for all that is loaded into the program:
/// that of its thread-local storage, in one instruction where compilers know it, else of its errno.
inline const void* this_thread() noexcept {
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
    return __builtin_thread_pointer();
#else
    return &errno;
#endif
}

/// Belongs to nobody until a thread claims it. It is there in release builds too, where nobody
/// asks, so that a wheel looks the same to a program and to a library built otherwise.
class owner_thread {
public:
    /// Takes it for the calling thread if nobody has it. Returns whether the caller has it now.
    bool claim() noexcept {
        if (owner_ == nullptr) owner_ = this_thread();
        return owner_ == this_thread();
    }

    /// Whether it is the calling thread's, or nobody's.
    bool admits_caller() const noexcept { return owner_ == nullptr || owner_ == this_thread(); }

private:
    const void* owner_ = nullptr;
};

}  // namespace tvec::detail
