#!/bin/bash
# check-arm.sh [-t TOTALS | -q] - the build for aarch64, run by qemu's user emulation: bits, not
# speed. The tests of the kernels hold every level against the reference, bit by bit; tests/arm/
# holds whole models against the build of this machine; then what else can depend on a processor.
#
# Needs the packages 'long' of tools/packages.txt, and libraries for aarch64, which it fetches from
# the archives that apt knows into build/arm-sysroot: nothing is installed for them.
# -t  add 'passed failed' to that file, as tools/run-tests.sh does
# -q  for `make check`: the tests of the kernels alone, and nothing at all, with a notice, where
#     something is missing
set -euo pipefail
cd "$(dirname "$0")/.."

tool=aarch64-linux-gnu
sysroot=$PWD/build/arm-sysroot
libs=$sysroot/usr/lib/$tool
build=build/arm
totals=() quick=0
case ${1:-} in
-t) totals=(-t "$2") ;;
-q) quick=1 ;;
esac

have_libs() {
    [ -e "$libs/libcmocka.so" ] && [ -e "$libs/libmicrohttpd.so" ]
}

# What is not there, in words; nothing if all is.
missing() {
    command -v $tool-gcc >/dev/null || echo "no $tool-gcc"
    [ -f /usr/$tool/include/stdio.h ] || echo "no C library for $tool"
    command -v qemu-aarch64 >/dev/null || echo "no qemu-aarch64"
    have_libs || echo "no build/arm-sysroot"
}

# An apt of its own, with its lists below the sysroot, that knows of no machine but arm64.
fetch_libs() {
    local apt=$sysroot/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$sysroot/deb"
    : >"$apt/status"
    apt_arm() {
        apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" \
            -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
            -o APT::Sandbox::User="$(id -un)" "$@"
    }
    echo "check-arm: fetching libraries for aarch64 into build/arm-sysroot"
    apt_arm update
    (cd "$sysroot/deb" && apt_arm download libcmocka0 libcmocka-dev libpcre2-8-0 libpcre2-dev \
        libutf8proc2 libutf8proc-dev libjansson4 libjansson-dev libxxhash0 libxxhash-dev \
        libmicrohttpd12 libmicrohttpd-dev libgnutls30 libp11-kit0 libidn2-0 libunistring2 libtasn1-6 \
        libnettle8 libhogweed6 libgmp10 libffi8)
    local deb
    for deb in "$sysroot"/deb/*.deb; do
        dpkg -x "$deb" "$sysroot"
    done
}

make_arm() {
    make --no-print-directory -j"$(nproc)" CROSS=$tool- CONFIG=arm WERROR=1 \
        CFLAGS="-isystem build/arm-sysroot/usr/include -DTEST_SLOWDOWN=30.0" \
        LDFLAGS="-Lbuild/arm-sysroot/usr/lib/$tool -Wl,-rpath-link,build/arm-sysroot/usr/lib/$tool" "$@"
}

# run_on CPU PROGRAM...: by tools/run-tests.sh on an emulated processor.
run_on() {
    local cpu=$1
    shift
    RUNNER="qemu-aarch64 -cpu $cpu -L /usr/$tool -E LD_LIBRARY_PATH=$libs" \
        TEST_TIMEOUT=1800 tools/run-tests.sh "${totals[@]}" $build "$@"
}

unset MAKEFLAGS MFLAGS MAKELEVEL # builds of their own, whatever called this
kern=()
for test in tests/kern/test_kern_*.c; do
    [ $test = tests/kern/test_kern_lloyd.c ] || kern+=("$build/${test%.c}") # minutes; plain C
done

if [ $quick = 1 ]; then
    gaps=$(missing | paste -sd, | sed 's/,/, /g')
    if [ -n "$gaps" ]; then
        echo "skipped: $gaps; make check-arm installs and runs all"
        echo "[  SKIPPED ] 1 test(s)"
        exit 0
    fi
    make_arm "${kern[@]}"
    run_on max "${kern[@]}"
    exit
fi

tools/deps.sh long
have_libs || fetch_libs
own=$(mktemp build/totals.XXXXXX)
trap 'rm -f "$own"' EXIT
[ ${#totals[@]} -gt 0 ] || totals=(-t "$own")

# Text, files, models and the command: `char` has no sign here. What only counts or draws numbers in
# plain C (drafting lengths, rollback, statistics of the sampler) would take an hour and show nothing
# new.
units=()
for test in tests/unit/test_{base,gguf,text,model,convert}*.c tests/unit/test_layer_batch.c \
    tests/unit/test_engine_{golden,draft_golden,generate,api}.c; do
    units+=("$build/${test%.c}")
done
replays=()
for test in tests/fuzz/fuzz_*.c; do
    replays+=("$build/tests/fuzz/replay_${test#tests/fuzz/fuzz_}")
    replays[-1]=${replays[-1]%.c}
done
make_arm LIBEDIT=0 cli "${kern[@]}" "${units[@]}" "${replays[@]}"
make --no-print-directory -j"$(nproc)" cli

rc=0
export FORETOKEN_HOST=build/release/foretoken
run_on max "${kern[@]}" tests/arm/bits.sh "${units[@]}" "${replays[@]}" \
    tests/cli/{convert,inspect,run,eval}.sh || rc=1
# Processors without SMMLA, and without SDOT too: an instruction that they lack ends the program.
run_on cortex-a76 $build/tests/kern/test_kern_{quant,matmul} $build/tests/unit/test_engine_golden || rc=1
run_on cortex-a72 $build/tests/kern/test_kern_{quant,matmul} $build/tests/unit/test_engine_golden || rc=1
if [ -s "$own" ]; then
    awk '{ p += $1; f += $2 } END { print p + 0 " passed, " f + 0 " failed" }' "$own"
fi
exit $rc
