/// \file
/// Words for calls that do not compile.
#pragma once

/// In place of `= delete`, says what to write instead. Compilers show the line that a deleted
/// function is declared on, so it has to stand on the line of the function's name.
#if defined(__cpp_deleted_function) && __cplusplus > 202302L
#define TVEC_WANTS(what) = delete ("it wants " what)
#else
#define TVEC_WANTS(what) = delete
#endif
