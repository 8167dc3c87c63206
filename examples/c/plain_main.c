// The code around the main function of an example in C. It refuses arguments, and fails if the
// output did not arrive. The linker puts it there (--wrap=main), so that a page can show the
// example whole.
#include <errno.h>
#include <stdio.h>
#include <string.h>

int __real_main(void);
int __wrap_main(int argc, char** argv);

int __wrap_main(int argc, char** argv) {
    const char* slash = strrchr(argv[0], '/');
    const char* name = slash ? slash + 1 : argv[0];
    if (argc > 1) {
        fprintf(stderr, "%s: takes no arguments\n", name);
        return 2;
    }
    const int result = __real_main();
    if (fflush(stdout) == 0 && !ferror(stdout)) return result;
    fprintf(stderr, "%s: cannot write to the standard output: %s\n", name, strerror(errno));
    return 1;
}
