#!/bin/bash
# fuzz.sh [-t TOTALS] - build every fuzz target with clang's libFuzzer and the sanitizers and run
# each for FUZZ_SECONDS (60). It starts from a copy of tests/fuzz/corpus/<target>; what it finds
# stays in build/fuzz/corpus, crashes in build/fuzz/crash-<target>-*. To keep a crash as a test, copy
# the file into tests/fuzz/corpus/<target>. Ends like run-tests.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

totals=
[ "${1:-}" != -t ] || totals=$2
seconds=${FUZZ_SECONDS:-60}
build=build/fuzz
unset MAKEFLAGS MFLAGS MAKELEVEL # a build of its own, whatever called this

make --no-print-directory -j"$(nproc)" CC=clang OPENMP=0 B=$build \
    SAN=fuzzer-no-link,address,undefined fuzzers

passed=0 failed=0
for source in tests/fuzz/fuzz_*.c; do
    [ -f "$source" ] || continue
    name=$(basename "$source" .c)
    name=${name#fuzz_}
    corpus=$build/corpus/$name
    log=$build/$name.log
    mkdir -p "$corpus"
    if [ -d "tests/fuzz/corpus/$name" ]; then
        cp -r "tests/fuzz/corpus/$name/." "$corpus/"
    fi
    rm -f "$build/crash-$name-"*
    rc=0
    "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="$build/crash-$name-" "$corpus" \
        </dev/null >"$log" 2>&1 || rc=$?
    runs=$(awk '/number_of_executed_units/ { print $2 }' "$log")
    if [ $rc -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok   ${seconds} s  fuzz_$name: ${runs:-?} inputs, $(find "$corpus" -type f | wc -l) kept"
    else
        failed=$((failed + 1))
        echo "FAIL fuzz_$name: exit status $rc after ${runs:-?} inputs"
        tail -n 40 "$log" | sed 's/^/    | /'
        ls "$build/crash-$name-"* 2>/dev/null | sed 's/^/    | input: /' || true
    fi
done

if [ -n "$totals" ]; then
    echo "$passed $failed" >>"$totals"
else
    echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ] && [ $passed -gt 0 ]
