#!/bin/bash
# compare.sh - our command and other programs on the same GGUF: interleaved pairs, the ratio and its spread.
#
#   bench/compare.sh -m MODEL [options] NAME=COMMAND...
#
#   -t N      threads (2)                -p N      tokens of the prompt (512)
#   -r N      pairs, at least 5 (5)      -n N      tokens made (64)
#   -d LIST   depths, as in "0 4096" (0) -c FILE   every pair as CSV
#   -D        drafting: COMMAND is a server instead of a benchmark program
#   -T LIST   with -D: temperatures (0)  -f FILE   with -D: the prompt, a text
#   -o FILE   our command (build/release/foretoken, or $FORETOKEN)
#
# Without -D a COMMAND is called as llama-bench is: -m -t -p -n -r 1 -o json, and -d at depths above 0.
# With -D it is started once, as llama-server is: -m -t --host --port, and asked by POST /completion
# (needs curl); its own flags, in COMMAND, switch drafting on. A flag of its own can be in any COMMAND:
# words are separated by blanks. Ratios are ours / theirs of each pair; above 1 we are faster.
set -euo pipefail

fail() {
    echo "compare.sh: $*" >&2
    exit 1
}

ours=${FORETOKEN:-build/release/foretoken}
model='' threads=2 pairs=5 n_prompt=512 n_decode=64 depths=0 csv='' draft='' temps=0 file=''
while getopts 'm:t:r:p:n:d:c:DT:f:o:' flag; do
    case $flag in
    m) model=$OPTARG ;;
    t) threads=$OPTARG ;;
    r) pairs=$OPTARG ;;
    p) n_prompt=$OPTARG ;;
    n) n_decode=$OPTARG ;;
    d) depths=$OPTARG ;;
    c) csv=$OPTARG ;;
    D) draft=1 ;;
    T) temps=$OPTARG ;;
    f) file=$OPTARG ;;
    o) ours=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ -f "$model" ] || fail "-m: no file '$model'"
[ -x "$ours" ] || fail "-o: no program '$ours'"
[ "$pairs" -ge 5 ] || fail "-r: $pairs pairs, want at least 5"
[ $# -gt 0 ] || fail "no other program: want NAME=COMMAND"
for peer in "$@"; do
    [[ $peer == *=* ]] || fail "'$peer' is not NAME=COMMAND"
done

dir=$(mktemp -d)
servers=()
cleanup() {
    [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true
    wait
    rm -rf "$dir"
}
trap cleanup EXIT
: >"$dir/pairs"

# ---- Benchmark programs ------------------------------------------------------------------------------

# Lines "TEST TOKENS_PER_SECOND" of one run.
ours_bench() { # DEPTH
    "$ours" bench -m "$model" -t "$threads" --depths "$1" --prompt "$n_prompt" --decode "$n_decode" --repeat 1 \
        --draft-max 0 --json |
        awk -F'[:,]' '/"what"/ { gsub(/[ "]/, "", $2); what = $2 }
            /"tokens_per_second"/ { print what, $2 + 0 }'
}
peer_bench() { # DEPTH COMMAND...
    local depth=()
    [ "$1" -eq 0 ] || depth=(-d "$1")
    "${@:2}" -m "$model" -t "$threads" -p "$n_prompt" -n "$n_decode" "${depth[@]}" -r 1 -o json 2>"$dir/err" |
        awk -F'[:,]' '/"n_prompt"/ { p = $2 + 0 } /"n_gen"/ { g = $2 + 0 }
            /"avg_ts"/ { print ((p > 0 && g == 0) ? "prompt" : "decode"), $2 + 0 }' ||
        fail "'${*:2}': $(tail -n 3 "$dir/err")"
}

bench_pair() { # PAIR NAME DEPTH COMMAND...
    local test speed
    ours_bench "$3" >"$dir/ours"
    peer_bench "$3" "${@:4}" >"$dir/peer"
    while read -r test speed; do
        echo "$1 $2 $test depth=$3 $speed $(awk -v t="$test" '$1 == t { print $2 }' "$dir/peer")" >>"$dir/pairs"
    done <"$dir/ours"
}

# ---- Servers with drafting ---------------------------------------------------------------------------

default_prompt='It was a dark night, and the old man went down to the river with a lantern in his hand. '

start_server() { # PORT COMMAND...
    "${@:2}" -m "$model" -t "$threads" --host 127.0.0.1 --port "$1" >"$dir/server-$1" 2>&1 &
    servers+=($!)
    for ((i = 0; i < 600; i++)); do
        curl -sf "http://127.0.0.1:$1/health" >/dev/null && return
        kill -0 $! 2>/dev/null || break
        sleep 0.2
    done
    fail "'${*:2}' did not come up: $(tail -n 3 "$dir/server-$1")"
}

json_string() { # a text from standard input
    perl -0777 -pe 's/([\\"])/\\$1/g; s/\n/\\n/g; s/\r/\\r/g; s/\t/\\t/g; s/([\x00-\x1f])/sprintf("\\u%04x", ord $1)/ge; $_ = "\"$_\""'
}

draft_pair() { # PAIR NAME TEMP PORT
    local own other
    own=$("$ours" run -m "$model" -t "$threads" -f "$dir/prompt" -n "$n_decode" --temp "$3" --seed "$1" \
        --ignore-eos --json -q | awk -F'[:,]' '/"decode_tokens_per_second"/ { print $2 + 0 }')
    other=$(curl -sf "http://127.0.0.1:$4/completion" -H 'Content-Type: application/json' -d "{
        \"prompt\": $(json_string <"$dir/prompt"), \"n_predict\": $n_decode, \"temperature\": $3, \"seed\": $1,
        \"top_k\": 40, \"top_p\": 0.95, \"min_p\": 0.05, \"ignore_eos\": true, \"cache_prompt\": false}" |
        grep -oE '"predicted_per_second": *[0-9.e+-]+' | awk -F: '{ print $2 + 0 }')
    echo "$1 $2 drafting temp=$3 $own $other" >>"$dir/pairs"
}

# ---- Pairs -------------------------------------------------------------------------------------------

if [ -n "$draft" ]; then
    if [ -n "$file" ]; then cp "$file" "$dir/prompt"; else printf '%s' "$default_prompt" >"$dir/prompt"; fi
    port=$((20000 + $$ % 20000))
    for peer in "$@"; do
        read -ra words <<<"${peer#*=}"
        start_server $((port++)) "${words[@]}"
    done
fi
for ((pair = 1; pair <= pairs; pair++)); do
    port=$((20000 + $$ % 20000))
    for peer in "$@"; do
        read -ra words <<<"${peer#*=}"
        if [ -n "$draft" ]; then
            for temp in $temps; do draft_pair "$pair" "${peer%%=*}" "$temp" "$port"; done
            port=$((port + 1))
        else
            for depth in $depths; do bench_pair "$pair" "${peer%%=*}" "$depth" "${words[@]}"; done
        fi
    done
done
awk 'NF != 6 || $5 <= 0 || $6 <= 0 { print "compare.sh: a run without a figure: " $0 > "/dev/stderr"; bad = 1 }
     END { exit bad }' "$dir/pairs"

if [ -n "$csv" ]; then
    { echo "model,threads,pair,peer,test,at,ours_tokens_per_second,peer_tokens_per_second,ratio"
        awk -v m="$model" -v t="$threads" '{ print m "," t "," $1 "," $2 "," $3 "," $4 "," $5 "," $6 "," $5 / $6 }' \
            "$dir/pairs"; } >"$csv"
fi
echo "$model, $threads threads, $pairs interleaved pairs; tokens/s, medians; ratio: ours / theirs, median and quartiles"
sort -k2,2 -k3,3 -k4,4V "$dir/pairs" | awk '
    function quantile(x, n, share,   at, i) { # x [1..n], sorted here
        sort(x, n); at = 1 + share * (n - 1); i = int(at)
        return i < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n]
    }
    function sort(x, n,   i, j, v) {
        for (i = 2; i <= n; i++) { v = x[i]; for (j = i - 1; j > 0 && x[j] > v; j--) x[j + 1] = x[j]; x[j + 1] = v }
    }
    function flush() {
        if (n) printf "%-12s %-9s %-11s %10.2f %10.2f   %6.3f  %6.3f .. %.3f\n", peer, test, at, quantile(own, n, 0.5),
            quantile(other, n, 0.5), quantile(ratio, n, 0.5), quantile(ratio, n, 0.25), quantile(ratio, n, 0.75)
        n = 0
    }
    BEGIN { printf "%-12s %-9s %-11s %10s %10s   %6s\n", "peer", "test", "at", "ours", "theirs", "ratio" }
    $2 " " $3 " " $4 != key { flush(); key = $2 " " $3 " " $4; peer = $2; test = $3; at = $4 }
    { n++; own[n] = $5; other[n] = $6; ratio[n] = $5 / $6 }
    END { flush() }'
