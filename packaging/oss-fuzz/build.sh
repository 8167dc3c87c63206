#!/bin/bash -eu
# Builds the fuzz targets of tests/models/fuzz. OSS-Fuzz sets CC, CXX, CXXFLAGS, LIB_FUZZING_ENGINE and OUT.
cd "${SRC:-..}/tvec" 2>/dev/null || cd "$(dirname "$0")/../.."
mkdir -p "$OUT"
sources=(src/{core,inspect,pool,remote}/*.cpp src/drivers/{eventfd_doorbell,kernel_result,timerfd_alarm}.cpp)
for target in wheel clock recording request; do
    # shellcheck disable=SC2086  # flags are separate words
    $CXX $CXXFLAGS -std=c++20 -Iinclude -Itests -Ibench -I. -Isupport tests/models/fuzz/$target.cpp "${sources[@]}" \
        $LIB_FUZZING_ENGINE -o "$OUT/fuzz_$target"
    [ ! -d tests/models/fuzz/corpus/$target ] ||
        zip --quiet --junk-paths --recurse-paths "$OUT/fuzz_${target}_seed_corpus.zip" tests/models/fuzz/corpus/$target
done
