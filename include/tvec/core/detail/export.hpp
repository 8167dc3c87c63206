/// \file
/// The mark for symbols that a shared libtvec exports. All others are hidden.
#pragma once

/// Marks functions that are defined in the library and called from outside. In a static library
/// (TVEC_STATIC) and in the single header they are hidden: a program or plugin with its own copy of
/// tvec exports no symbol of it. g++ would then warn about each exported class that has a timer.
#ifndef TVEC_API
#ifndef TVEC_STATIC
#define TVEC_API [[gnu::visibility("default")]]
#else
#define TVEC_API [[gnu::visibility("hidden")]]
#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic ignored "-Wattributes"
#endif
#endif
#endif
