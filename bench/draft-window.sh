#!/bin/bash
# draft-window.sh [COMMAND [MODEL]] - what the drafter's sink and window do to acceptance behind a long
# prompt: 12,000 tokens read in chunks of 512, then 150 tokens with three drafts a round.
#
# The prompts are written by the model itself at temperature 1, in pieces of 2,000 tokens. Prints, per
# setting, drafts accepted of drafts made over all prompts, at temperature 0 and 0.7, and the bytes that a
# draft step reads. The text is the same for every setting: drafting changes the speed alone.
set -euo pipefail
cd "$(dirname "$0")/.."
command=${1:-build/release/foretoken}
model=${2:-models/foretoken-sample.gguf}
n_prompt=${N_PROMPT:-6}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for ((i = 0; i < n_prompt; i++)); do
    for ((piece = 0; piece < 7; piece++)); do
        "$command" run -m "$model" -p 'The' -n 2000 --temp 1 --top-k 0 --top-p 1 --min-p 0 \
            --seed $((100 * i + piece)) --ignore-eos --no-draft -q --echo
    done > "$dir/prompt$i"
done

# Sum of a number that follows "key": in the JSON of several runs.
sum() {
    grep -h "\"$1\": [0-9]" "${@:2}" | awk -F'[:,]' '{ s += $2 } END { printf "%d", s }'
}

printf '%-6s %-7s %-24s %-24s %s\n' sink window 'temperature 0' 'temperature 0.7' 'bytes a step'
for sink in 0 64; do
    for window in 64 256 all; do
        printf '%-6s %-7s' "$sink" "$window"
        for temp in 0 0.7; do
            for ((i = 0; i < n_prompt; i++)); do
                head -c 44000 "$dir/prompt$i" |
                    "$command" run -m "$model" -c 16384 --chunk 512 --temp "$temp" --seed "$i" -n 150 \
                        --ignore-eos --draft-fixed --draft-max 3 --sink "$sink" --window "$window" \
                        --json -q > "$dir/out$temp-$i.json"
            done
            drafted=$(sum drafted "$dir"/out"$temp"-*.json)
            accepted=$(sum accepted "$dir"/out"$temp"-*.json)
            printf ' %-24s' "$(awk -v a="$accepted" -v d="$drafted" \
                'BEGIN { p = a / d; printf "%.1f %% +- %.1f of %d", 100 * p, 100 * sqrt(p * (1 - p) / d), d }')"
        done
        printf ' %s\n' "$(sum bytes_per_step "$dir"/out0-0.json)"
    done
done
echo "prompt tokens: $(sum prompt_tokens "$dir"/out0-*.json) in $n_prompt prompts"
