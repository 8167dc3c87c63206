# In place of rules_cc, which Bazel would fetch: these rules are in Bazel 4 itself.
cc_binary = native.cc_binary
cc_library = native.cc_library
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
