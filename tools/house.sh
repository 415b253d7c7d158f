#!/bin/bash
# house.sh BUILD - the rules of docs/style.md that a script can check, one line each: includes by the
# room table of docs/architecture.md, sizes, banned calls, format, headers that stand alone, symbols
# of the libraries in BUILD, machine paths. Ends with 'N passed, N failed'.
#
# A file with the comment 'house: generated table' may have any size; a function whose body has the
# comment 'house: flat' (one flat switch or table) may be long.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
export LC_ALL=C
passed=0 failed=0
findings=$(mktemp)
trap 'rm -f "$findings"' EXIT

files_of() { # FOLDER...: the C sources and headers of those that exist
    local folder
    for folder in "$@"; do
        [ -d "$folder" ] || continue
        find "$folder" -name '*.[ch]'
    done | sort
}

# check NAME FUNCTION: the function prints what is wrong; 'warn: ...' lines are only shown.
check() {
    "$2" >"$findings" 2>&1 || echo "$2: ended with status $?" >>"$findings"
    if grep -qv '^warn: ' "$findings"; then
        failed=$((failed + 1))
        echo "FAIL  $1"
    else
        passed=$((passed + 1))
        echo "ok    $1"
    fi
    sed 's/^/      /' "$findings" | head -n 60
}

# ---- Includes ---------------------------------------------------------------------------------

# Lines 'file "header"' or 'file <foretoken/foretoken.h>' of all includes that rules apply to.
project_includes() {
    files_of src cli server bench examples | while read -r file; do
        sed -nE 's|^[ \t]*#[ \t]*include[ \t]*("[^"]*"\|<foretoken/[^>]*>).*|\1|p' "$file" |
            sed "s|^|$file |"
    done
}

check_includes() {
    local table
    table=$(sed -nE 's/^\| `(src\/)?([a-z]+)\/` \|.*\| ([^|]*) \|$/\2 \3/p' docs/architecture.md)
    [ -n "$table" ] || echo "docs/architecture.md: no room table found"
    project_includes | awk -v table="$table" '
        BEGIN {
            n = split(table, rows, "\n")
            for (i = 1; i <= n; i++) {
                m = split(rows[i], word, " ")
                known[word[1]] = 1
                for (j = 2; j <= m; j++)
                    may[word[1], word[j]] = 1
            }
        }
        function refuse(why) { print $1 ": includes " $2 ": " why }
        {
            n = split($1, dir, "/")
            program = dir[1] != "src"
            room = program ? dir[1] : dir[2]
            header = substr($2, 2, length($2) - 2)
            slash = index(header, "/")
            target = slash ? substr(header, 1, slash - 1) : ""
            if (!(room in known)) {
                refuse("room " room " is not in the table of docs/architecture.md")
            } else if (target == "foretoken") {
                if (room == "kern" || (room == "base" && $1 != "src/base/err.h"))
                    refuse("not for " room)
            } else if (!slash) {
                if (!program)
                    refuse("spell it from src/")
            } else if (target == room || may[room, header]) {
                next
            } else if (!may[room, target] && !may[room, "all"]) {
                refuse(room " may not include " target)
            } else if (target != "base" && header != target "/" target ".h") {
                refuse("private to " target)
            }
        }'
}

# ---- Sizes ------------------------------------------------------------------------------------

check_sizes() {
    local file n
    files_of src cli server bench examples tests include | while read -r file; do
        n=$(wc -l <"$file")
        if [ "$n" -le 600 ] || grep -q 'house: generated table' "$file"; then
            continue
        fi
        case $file in
        src/* | cli/* | server/*) [ "$n" -le 800 ] || printf '%s: %d lines, want at most 800\n' "$file" "$n" ;;
        esac
        [ "$n" -gt 800 ] || echo "warn: $file: $n lines, want at most 600"
    done
    files_of src cli server bench | while read -r file; do
        awk -v file="$file" '
            /^[A-Za-z_].*\(/ { name = $0 }
            /^\{/ { start = NR; flat = 0 }
            /house: flat/ { flat = 1 }
            /^\}$/ && start {
                if (NR - start - 1 > 100 && !flat)
                    printf "%s:%d: a function of %d lines, want at most 100: %s\n", file, start,
                        NR - start - 1, name
                start = 0
            }' "$file"
    done
}

# ---- Words ------------------------------------------------------------------------------------

# Calls of the functions in $2 (a regular expression) in the files of standard input, comments and
# strings left out; $1 says where they are not wanted.
calls_of() {
    local file
    while read -r file; do
        gcc -fpreprocessed -dD -E -P -x c "$file" 2>/dev/null | sed -E 's/"([^"\\]|\\.)*"/""/g' |
            grep -oE "(^|[^A-Za-z0-9_.>])($2)[ ]*\(" | sed -E 's/^[^A-Za-z0-9_]//; s/[ ]*\($//' |
            sort -u | sed "s|^|$file: |; s|\$|: banned $1|" || true
    done
}

check_banned() {
    files_of src cli server bench examples tests include |
        calls_of everywhere 'strcpy|strcat|sprintf|vsprintf|strtok|atoi|gets|rand|alloca'
    files_of src | grep -v '^src/base/' |
        calls_of 'in src outside base' \
            'exit|_exit|abort|getenv|v?f?printf|puts|fputs|perror|malloc|calloc|realloc|free'
}

# A path of the machine on which something was written.
check_paths() {
    grep -rnE '/(work|tmp|home|root)/' --include='*.[ch]' --include='*.md' --include=Makefile \
        Makefile README.md src include cli server bench docs 2>/dev/null |
        sed 's/$/: a path of one machine/' || true
    grep -rnE '/(work|home|root)/' --include='*.[ch]' --include='*.sh' --include='*.py' tests 2>/dev/null |
        sed 's/$/: a path of one machine/' || true
}

# ---- Format and headers -----------------------------------------------------------------------

check_format() {
    local tool
    tool=$(command -v clang-format-14 || command -v clang-format) ||
        { echo "clang-format is missing: run tools/deps.sh" && return; }
    files_of src cli server bench examples tests include | xargs "$tool" --dry-run -Werror 2>&1 |
        grep -oE '^[^:]+:[0-9]+:[0-9]+: error' | awk -F: '!seen[$1]++ { print $1 ":" $2 ": run clang-format -i" }' ||
        true
}

# Flags of a header that is for one instruction set, by its name as in the Makefile.
isa_flags() {
    case $1 in
    *_avx2.h) echo -mavx2 -mfma -mf16c ;;
    *_avx512.h) echo -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c ;;
    *_neon.h) echo -march=armv8.2-a+dotprod+fp16 ;;
    esac
}

compile_alone() { # COMPILER FLAG... HEADER
    local header=${*: -1}
    "${@:1:$#-1}" $(isa_flags "$header") -Iinclude -Isrc -Itests -Icli -Wall -Wextra -Werror \
        -fsyntax-only - <<<"#include \"$header\"" 2>&1 | sed "s|^|$header: |" | head -n 5
}

check_headers() {
    local header compiler
    files_of src cli server bench tests include | grep '\.h$' | while read -r header; do
        compiler=gcc
        case $header in
        *_tmpl.h) continue ;; # a body, included with its types defined
        */x86/*) [ "$(uname -m)" = x86_64 ] || continue ;;
        */arm/*)
            [ "$(uname -m)" = aarch64 ] || compiler=aarch64-linux-gnu-gcc
            command -v $compiler >/dev/null || continue
            ;;
        esac
        compile_alone $compiler -std=c11 -D_POSIX_C_SOURCE=200809L -x c -I. "$header"
    done
    files_of include | while read -r header; do
        compile_alone g++ -std=c++17 -x c++ -I. "$header"
    done
}

# ---- Symbols ----------------------------------------------------------------------------------

check_symbols() {
    local lib flags
    for lib in libforetoken.a libforetoken.so; do
        flags=-g
        [ $lib = libforetoken.a ] || flags=-D
        if [ ! -f "$build/$lib" ]; then
            echo "$build/$lib: not built"
            continue
        fi
        nm $flags --defined-only "$build/$lib" |
            awk -v lib=$lib 'NF == 3 { n++ } NF == 3 && $3 !~ /^ft_/ { print lib ": shows " $3 }
                END { if (!n) print lib ": shows no symbol" }'
    done
}

check "includes follow the room table" check_includes
check "files up to 800 lines, functions up to 100" check_sizes
check "no banned calls" check_banned
check "no paths of one machine" check_paths
check "clang-format finds nothing" check_format
check "every header compiles alone" check_headers
check "libraries show ft_ names only" check_symbols
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
