#!/bin/bash
# check-long.sh - what takes longer than `make check`: the suite under the address and
# undefined-behaviour sanitizers with leak detection, builds by clang and without OpenMP that allow no
# warning, threads under ThreadSanitizer, the build for aarch64 on an emulator, the fuzzers, and
# tests/long/*.sh. Ends with the line
# 'N passed, N failed', where a build and a fuzz target count as one test each.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p build
totals=$(mktemp build/totals.XXXXXX)
trap 'rm -f "$totals"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL # builds of their own, whatever called this
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
n_failed=0

# stage NAME COMMAND...: the command adds to $totals itself; its failure without a count is one.
stage() {
    local name=$1 start=$SECONDS before rc=0
    shift
    before=$(wc -l <"$totals")
    echo "== $name"
    "$@" || rc=$?
    if [ $rc -ne 0 ] && [ "$(wc -l <"$totals")" -eq "$before" ]; then
        echo "0 1" >>"$totals"
    fi
    [ $rc -eq 0 ] || n_failed=$((n_failed + 1))
    echo "== $name: $([ $rc -eq 0 ] && echo ok || echo FAILED), $((SECONDS - start)) s"
}

# A build that must not warn counts as one test.
build_stage() {
    make --no-print-directory -j"$(nproc)" WERROR=1 "$@" all tests && echo "1 0" >>"$totals"
}

# What runs in several threads, under ThreadSanitizer. gcc's OpenMP runtime is not instrumented, and what
# its threads hand to each other would be reported as races; clang's tells ThreadSanitizer, through archer,
# which comes with it and which it loads by itself (without it thousands of races are reported). Calls from
# inside that runtime are left out, nothing of ours is.
thread_tests() {
    local build=build/san-thread tests
    tests=("$build"/tests/unit/test_{engine_threads,engine_batch_ends,layer_batch})
    make --no-print-directory -j"$(nproc)" CC=clang SAN=thread "${tests[@]}" || return
    TSAN_OPTIONS=ignore_noninstrumented_modules=1 \
        tools/run-tests.sh -t "$totals" $build "${tests[@]}"
}

long_tests() {
    local tests=(tests/long/*.sh)
    [ -f "${tests[0]}" ] || return 0
    TEST_TIMEOUT=1800 tools/run-tests.sh -t "$totals" build/werror "${tests[@]}"
}

stage "suite under address,undefined" \
    make --no-print-directory WERROR=0 SAN=address,undefined TOTALS="$totals" check-suite
stage "suite built by clang, warnings are errors" \
    make --no-print-directory CC=clang CONFIG=clang WERROR=1 TOTALS="$totals" check-suite
stage "build without OpenMP, warnings are errors" build_stage CONFIG=no-openmp OPENMP=0
stage "build for aarch64, emulated" tools/check-arm.sh -t "$totals"
stage "threads under ThreadSanitizer" thread_tests
stage "fuzz targets" tools/fuzz.sh -t "$totals"
stage "build by gcc, warnings are errors" build_stage CONFIG=werror
stage "long tests" long_tests

read -r passed failed < <(awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }' "$totals")
echo "$passed passed, $failed failed"
[ $n_failed -eq 0 ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
