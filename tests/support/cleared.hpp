// Objects that are compared byte by byte: the padding between their members is zero.
#pragma once

#include <cstdlib>
#include <new>

namespace support {

template <class T> struct cleared : T {
    using T::T;
    static void* operator new(std::size_t size) {
        if (void* const memory = std::calloc(1, size)) return memory;
        throw std::bad_alloc();
    }
    static void operator delete(void* memory) { std::free(memory); }
};

}  // namespace support
