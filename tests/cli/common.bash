# common.bash - what the tests of the command share; sourced, run from the repository root.
# Needs bash and what every Debian has (coreutils, grep, perl-base).
set -u -o pipefail
FORETOKEN=${FORETOKEN:-build/release/foretoken}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} LC_ALL=C
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

[ -x "$FORETOKEN" ] || { echo "$FORETOKEN is missing: run make cli" && exit 1; }

fail() {
    echo "FAIL line ${BASH_LINENO[${#BASH_LINENO[@]} - 2]}: $*" # of the script, whoever calls
    failed=1
}

finish() {
    [ $failed -eq 0 ] && echo "ok"
    exit $failed
}

# Runs the command with standard input from $stdin (/dev/null): exit status in rc, output in
# $tmp/out, messages in $tmp/err.
stdin=/dev/null
run() {
    rc=0
    "$FORETOKEN" "$@" <"$stdin" >"$tmp/out" 2>"$tmp/err" || rc=$?
}

# good ARG...: exit status 0.
good() {
    run "$@"
    [ $rc -eq 0 ] || fail "'$*': exit status $rc: $(head -c 300 "$tmp/err")"
}

# bad RC WORDS ARG...: exit status RC, WORDS in the messages, nothing on standard output.
bad() {
    local want=$1 words=$2
    shift 2
    run "$@"
    [ $rc -eq "$want" ] || fail "'$*': exit status $rc, want $want: $(head -c 300 "$tmp/err")"
    grep -qF -e "$words" "$tmp/err" || fail "'$*': '$words' is not in: $(head -c 300 "$tmp/err")"
    [ ! -s "$tmp/out" ] || fail "'$*': failed, yet wrote: $(head -c 100 "$tmp/out")"
}

# without_reader ARG...: the command writes to a pipe whose reader has gone; exit status in rc.
without_reader() {
    { sleep 0.1 && exec "$FORETOKEN" "$@" 2>"$tmp/err"; } | true
    rc=${PIPESTATUS[0]}
}

# has FILE WORDS: the file has a line with the words.
has() {
    grep -qF -e "$2" "$1" || fail "'$2' is not in $1: $(head -c 300 "$1")"
}

same() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

# json FILE: the whole file is one JSON value (RFC 8259).
json() {
    perl -0777 -ne 'exit !/\A(?<v>\s*(?:\{\s*(?:(?<s>"(?:[^"\\\x00-\x1f]|\\(?:["\\\/bfnrt]|u[0-9a-fA-F]{4}))*+")\s*:(?&v)(?:,\s*(?&s)\s*:(?&v))*+)?\s*\}|\[(?:(?&v)(?:,(?&v))*+)?\s*\]|(?&s)|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)\s*)\z/' "$1" ||
        fail "$1 is no JSON: $(head -c 300 "$1")"
}

# count FILE: its bytes.
count() {
    wc -c <"$1" | tr -d ' '
}

# numbers FILE KEY: the numbers of a JSON list of numbers, separated by spaces.
numbers() {
    perl -0777 -ne '/"'"$2"'"\s*:\s*\[([^]]*)\]/ or exit 1; $_ = $1; s/[\s,]+/ /g; s/^ | $//g; print' "$1"
}

# value FILE KEY: the first scalar of that key.
value() {
    perl -0777 -ne '/"'"$2"'"\s*:\s*("(?:[^"\\]|\\.)*"|[-\w.+]+)/ or exit 1; $_ = $1; s/^"|"$//g; print' "$1"
}

# tokens NAME FILE: a list of int32 of tests/golden/NAME as text.
tokens() {
    od -An -v -t d4 "tests/golden/$1" >"$2"
}

# A tokenizer.json for the tiny checkpoints: id = byte for 0 .. 255, three merges, 319 ends a text.
write_tokenizer() {
    perl -CS -e '
        my $n = 0;
        my @c = map { ($_ >= 33 && $_ <= 126) || ($_ >= 161 && $_ <= 172) || $_ >= 174
                      ? $_ : 256 + $n++ } 0 .. 255;
        my @v = map { my $s = chr $c[$_]; $s =~ s/(["\\])/\\$1/; "\"$s\":$_" } 0 .. 255;
        push @v, "\"he\":256", "\"in\":257", "\"\x{120}t\":258", "\"\x{120}the\":259";
        print "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",",
            "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"", $ARGV[0], "\"},",
            "\"behavior\":\"Isolated\",\"invert\":false}]},\"model\":{\"type\":\"BPE\",\"vocab\":{",
            join(",", @v), "},\"merges\":[\"h e\",\"i n\",\"\x{120} t\",\"\x{120}t he\"]},",
            "\"added_tokens\":[{\"id\":319,\"content\":\"<|endoftext|>\",\"special\":true}]}\n"' \
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
}

# checkpoint FAMILY DIR: tests/golden/tiny-FAMILY as a folder to convert, with a tokenizer.
checkpoint() {
    mkdir -p "$2"
    cp "tests/golden/tiny-$1"/{config.json,generation_config.json,model.safetensors} "$2"
    write_tokenizer >"$2/tokenizer.json"
}

# model FAMILY FILE [TYPE]: that folder as a GGUF (F32).
model() {
    checkpoint "$1" "$tmp/hf-$1"
    "$FORETOKEN" convert "$tmp/hf-$1" -o "$2" --type "${3:-f32}" 2>"$tmp/err" ||
        { fail "convert $1: $(cat "$tmp/err")" && finish; }
}

# help_lists COMMAND OPTION...: --help tells every option of the list; -h is the same.
help_lists() {
    local command=$1 option listed
    shift
    good "$command" --help
    for option in "$@" -h,; do
        grep -qE -e "^ .*$option( |$)" "$tmp/out" || fail "$command --help does not list $option"
    done
    has "$tmp/out" "usage: foretoken $command "
    [ ! -s "$tmp/err" ] || fail "$command --help writes to standard error"
    listed=$(cat "$tmp/out")
    good "$command" -h
    [ "$listed" = "$(cat "$tmp/out")" ] || fail "$command -h is not $command --help"
}
