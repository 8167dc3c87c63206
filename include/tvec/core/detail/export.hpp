/// \file
/// What a shared libtvec shows. Everything else in it is hidden.
#pragma once

/// Marks what is defined in the library and called from outside it. The single header defines it
/// as nothing: a program that carries its own tvec shows it to nobody.
#ifndef TVEC_API
#define TVEC_API [[gnu::visibility("default")]]
#endif
