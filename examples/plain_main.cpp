// The code around the main function of a program without options: run_program. The linker puts it
// there (--wrap=main), so that a page can show the program whole.
#include "support/program.hpp"

extern "C" {
int __real_main();  // the program's own
int __wrap_main(int argc, char** argv);
}

int __wrap_main(int argc, char** argv) { return example::run_program(argc, argv, __real_main); }
