#!/bin/bash
# run-tests.sh [-t TOTALS] BUILD PROGRAM... - run test programs from the repository root, one line
# each, and end with the line 'N passed, N failed' (with -t: append 'N N' to that file instead).
#
# Counted are test functions: the summary of a cmocka program, or the closing line
# 'N passed, N failed' of a program that prints one; a program with neither (a shell test, the replay
# of a fuzz corpus) counts as one test. A program that fails, crashes or takes over TEST_TIMEOUT
# (600) seconds counts as failed, also when all its tests had passed; one without any test too.
# Logs stay in BUILD/logs. RUNNER, if set, is put before every program and before the command that shell
# tests run: an emulator and its options. Programs find the build in FT_BUILD and the command in FORETOKEN.
# Exit status 1 when anything failed or nothing ran.
set -euo pipefail
cd "$(dirname "$0")/.."

totals=
if [ "${1:-}" = -t ]; then
    totals=$2
    shift 2
fi
build=$1
shift
export FT_BUILD=$build FORETOKEN=$build/foretoken CMOCKA_MESSAGE_OUTPUT=stdout
# Threads that wait must not spin: tests share the machine with each other and with others.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
mkdir -p "$build/logs"
if [ -n "${RUNNER:-}" ]; then
    FORETOKEN=$build/run-foretoken
    printf '#!/bin/bash\nexec %s %s "$@"\n' "$RUNNER" "$build/foretoken" >"$FORETOKEN"
    chmod +x "$FORETOKEN"
fi

# The command line of a program, by its kind.
command_of() {
    case $1 in
    */replay_*) echo "${RUNNER:-} $1 tests/fuzz/corpus/${1##*/replay_}" ;;
    */check-arm.sh) echo "bash $1 -q" ;;
    *.sh) echo "bash $1" ;;
    *) echo "${RUNNER:-} $1" ;;
    esac
}

# Numbers of passed, failed and skipped tests in a log; nothing when it has no summary.
count_tests() {
    awk '
        /^\[  PASSED  \] [0-9]+ test/ { passed += $4; seen = 1 }
        /^\[  FAILED  \] [0-9]+ test/ { failed += $4; seen = 1 }
        /^\[  SKIPPED \] [0-9]+ test/ { skipped += $4; seen = 1 }
        /^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3; seen = 1 }
        END { if (seen) print passed + 0, failed + 0, skipped + 0 }' "$1"
}

all_passed=0 all_failed=0
for program in "$@"; do
    name=${program#"$build"/}
    log=$build/logs/$(tr / - <<<"$name").log
    start=$(date +%s%N)
    rc=0
    timeout -k 10 "${TEST_TIMEOUT:-600}" $(command_of "$program") </dev/null >"$log" 2>&1 || rc=$?
    seconds=$(awk -v ns=$(($(date +%s%N) - start)) 'BEGIN { printf "%.1f", ns / 1e9 }')
    counts=$(count_tests "$log")
    note=
    if [ -n "$counts" ]; then
        read -r passed failed skipped <<<"$counts"
        if [ "$skipped" -gt 0 ]; then
            why=$(sed -n 's/^skipped: //p' "$log" | head -n 1)
            note=", $skipped skipped${why:+: $why}"
        fi
        if [ $((passed + failed + skipped)) -eq 0 ]; then
            failed=1 note=", ran no test"
        fi
    else
        passed=$((rc == 0)) failed=0
    fi
    if [ $rc -eq 124 ] || [ $rc -eq 137 ]; then
        note+=", stopped after ${TEST_TIMEOUT:-600} s or killed"
    elif [ $rc -gt 1 ]; then
        note+=", exit status $rc"
    fi
    if [ $rc -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
    fi
    word=ok
    [ "$failed" -eq 0 ] || word=FAIL
    printf '%-4s %6s s  %s: %d passed, %d failed%s\n' $word "$seconds" "$name" "$passed" "$failed" \
        "$note"
    if [ $word = FAIL ]; then
        sed 's/^/    | /' "$log" | tail -n 60
        echo "    | (whole log: $log)"
    fi
    all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed))
done

if [ -n "$totals" ]; then
    echo "$all_passed $all_failed" >>"$totals"
else
    echo "$all_passed passed, $all_failed failed"
fi
[ "$all_failed" -eq 0 ] && [ "$all_passed" -gt 0 ]
