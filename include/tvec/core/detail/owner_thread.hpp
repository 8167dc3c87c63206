/// \file
/// Which thread a wheel belongs to: for the assertions of debug builds.
#pragma once

#include <cerrno>

namespace tvec::detail {

/// Returns an address that no other thread alive has, the same for all copies of the library in
/// the program. It is the address of the thread-local storage, which takes one instruction where
/// compilers know it. Elsewhere it is the address of errno.
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

    /// Returns whether the calling thread owns the wheel, or no thread does.
    bool admits_caller() const noexcept { return owner_ == nullptr || owner_ == this_thread(); }

private:
    const void* owner_ = nullptr;
};

}  // namespace tvec::detail
