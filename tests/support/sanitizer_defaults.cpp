// Criterion runs each test in a child whose exit it judges. A sanitizer report must end that
// child at once, or it would come after the verdict and be lost.

extern "C" {

const char* __asan_default_options();
const char* __ubsan_default_options();
const char* __lsan_default_suppressions();

const char* __asan_default_options() { return "abort_on_error=1:detect_stack_use_after_return=1"; }

const char* __ubsan_default_options() {
    return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

// Leaks of Criterion's runner are not ours. Our leaks: see one_process.cpp.
const char* __lsan_default_suppressions() { return "leak:libcriterion.so"; }

}  // extern "C"
