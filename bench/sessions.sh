#!/bin/bash
# sessions.sh [options] - several sessions at once against one: tokens/s of all, with and without drafts.
#
#   -m LIST   models ("models/foretoken-sample.gguf synthetic"; synthetic: qwen3.5-0.8b with random weights in
#             q4_0, made for this)
#   -s LIST   sessions at once ("1,2,4,8")     -t N      threads (2)
#   -n N      tokens until a run ends (64)     -r N      interleaved runs (5)
#   -k N      drafts of a round (3)            -d LIST   depths, as in "0,4096" (0)
#   -o FILE   our command (build/release/foretoken, or $FORETOKEN)
#
# A step of n sessions reads the weights of the trunk once, and so does each of its draft steps those of the
# draft head. With random weights no draft is accepted: its rows with drafts are the worst case, a round
# that costs all and gives one token. The machine's load average stands before and behind each model.
set -euo pipefail

ours=${FORETOKEN:-build/release/foretoken}
models='models/foretoken-sample.gguf synthetic' sessions=1,2,4,8 threads=2 n=64 runs=5 drafts=3 depths=0
while getopts 'm:s:t:n:r:k:d:o:' flag; do
    case $flag in
    m) models=$OPTARG ;;
    s) sessions=$OPTARG ;;
    t) threads=$OPTARG ;;
    n) n=$OPTARG ;;
    r) runs=$OPTARG ;;
    k) drafts=$OPTARG ;;
    d) depths=$OPTARG ;;
    o) ours=$OPTARG ;;
    *) exit 2 ;;
    esac
done
[ -x "$ours" ] || {
    echo "sessions.sh: -o: no program '$ours'" >&2
    exit 1
}

load() {
    printf 'load average %s: %s\n' "$1" "$(cut -d' ' -f1-3 /proc/loadavg)"
}

for model in $models; do
    of=(-m "$model")
    [ "$model" != synthetic ] || of=(--shape qwen3.5-0.8b --type q4_0)
    load before
    "$ours" bench "${of[@]}" --sessions "$sessions" -t "$threads" --decode "$n" --repeat "$runs" --draft-max "$drafts" \
        --depths "$depths"
    load behind
    echo
done
