// The library's object in the memory of a struct whose members are private.
#pragma once

#include <type_traits>

namespace tvec::c {

template <class Own, class C> Own& own(C* c) {
    static_assert(sizeof(Own) <= sizeof(C));
    static_assert(alignof(Own) <= alignof(C));  // on two lines: clang-tidy takes them for the same
    static_assert(std::is_trivially_destructible_v<Own>);
    return *reinterpret_cast<Own*>(c);
}

}  // namespace tvec::c
