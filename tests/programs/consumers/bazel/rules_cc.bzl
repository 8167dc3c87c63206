# Replaces rules_cc, which Bazel would download: these rules are built into Bazel 4.
cc_binary = native.cc_binary
cc_library = native.cc_library
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
