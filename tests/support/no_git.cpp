// Criterion has libgit2 show how two texts differ, which no test here asks for. It is loaded into
// each test's process all the same, with fifteen libraries of its own, and reads all certificates
// of the machine: most tests are shorter than that. This has its name, and is loaded in its place.
extern "C" {
int git_libgit2_init() { return 1; }
int git_libgit2_shutdown() { return 0; }
int git_diff_buffers() { return -1; }
}
