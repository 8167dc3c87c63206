/// \file
/// Messages for calls that do not compile.
#pragma once

/// Replaces `= delete`, and says what to write instead. Compilers show the line on which a deleted
/// function is declared. Therefore the macro has to stand on the line of the function's name.
#if defined(__cpp_deleted_function) && __cplusplus > 202302L
#define TVEC_WANTS(what) = delete ("it wants " what)
#else
#define TVEC_WANTS(what) = delete
#endif
