/// \file
/// The mark for symbols that a shared libtvec exports. All others are hidden.
#pragma once

/// Marks functions that are defined in the library and called from outside. The single header
/// defines it as nothing: a program with its own copy of tvec exports no symbol of it.
#ifndef TVEC_API
#define TVEC_API [[gnu::visibility("default")]]
#endif
