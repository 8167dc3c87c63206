// Common to all programs: how they end, and how they know that their output has arrived.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

namespace example {

// Runs `body` and returns its result as the exit status. An exception becomes one line and status
// 1, and so does standard output that did not arrive.
int run_program(const char* program, const std::function<int()>& body);

// Does so for a program without options: arguments are refused, with one line and status 2.
int run_program(int argc, char** argv, const std::function<int()>& body);

// Sees to it that what was printed has arrived. Throws if not.
void flush_output();

// A file to be written. It is opened, and what it held is gone, when this is made: what cannot be
// written is refused before the work, not after it.
class output_file {
public:
    explicit output_file(std::string name);
    ~output_file();
    output_file(output_file&& other) noexcept;
    output_file& operator=(output_file&&) = delete;

    // For fmt::print and fwrite.
    std::FILE* get() const { return file_; }
    // Goes back to the beginning. Throws where there is none: in a pipe.
    void rewind();
    // Sees to it that what was written so far has arrived. Throws if not.
    void flush();
    // Writes the rest and closes. Without this call an error may go unnoticed.
    void finish();

private:
    std::string name_;
    std::FILE* file_;
};

}  // namespace example
