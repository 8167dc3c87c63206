// Criterion runs each test in a child whose exit it judges. A sanitizer report must end that
// child at once, or it would come after the verdict and be lost.

extern "C" {

const char* __asan_default_options();
const char* __ubsan_default_options();

const char* __asan_default_options() { return "abort_on_error=1:detect_stack_use_after_return=1"; }

const char* __ubsan_default_options() {
    return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

}  // extern "C"
