#include "program.hpp"

#include <cerrno>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace example {

namespace {

[[noreturn]] void fail_to_write(const std::string& what, int reason) {
    throw std::system_error(reason, std::system_category(), "cannot write " + what);
}

// Why something written to it has not arrived, or 0. The reason of an earlier failure is not known
// any more.
int fault_of(std::FILE* file) {
    if (std::fflush(file) != 0) return errno;
    return std::ferror(file) != 0 ? EIO : 0;
}

}  // namespace

int run_program(const char* program, const std::function<int()>& body) try {
    const int status = body();
    flush_output();
    return status;
} catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", program);
    return 1;
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program, e.what());
    return 1;
}

int run_program(int argc, char** argv, const std::function<int()>& body) {
    const char* const program = program_invocation_short_name;
    if (argc <= 1) return run_program(program, body);
    std::fprintf(stderr, "%s: takes no arguments, and not '%s'\n", program, argv[1]);
    return 2;
}

void flush_output() {
    if (const int reason = fault_of(stdout)) fail_to_write("to standard output", reason);
}

output_file::output_file(std::string name)
    : name_(std::move(name)), file_(std::fopen(name_.c_str(), "wb")) {
    if (file_ == nullptr) fail_to_write(name_, errno);
}

output_file::~output_file() {
    if (file_ != nullptr) std::fclose(file_);
}

output_file::output_file(output_file&& other) noexcept
    : name_(std::move(other.name_)), file_(std::exchange(other.file_, nullptr)) {}

void output_file::rewind() {
    if (std::fseek(file_, 0, SEEK_SET) != 0) fail_to_write(name_, errno);
}

void output_file::flush() {
    if (const int reason = fault_of(file_)) fail_to_write(name_, reason);
}

void output_file::finish() {
    flush();
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail_to_write(name_, errno);
}

}  // namespace example
