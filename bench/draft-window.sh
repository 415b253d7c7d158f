#!/bin/bash
# draft-window.sh [COMMAND [MODEL]] - what the drafter's sink and window do to acceptance behind a long
# prompt: 12,000 tokens read in chunks of 512, then 150 tokens with three drafts a round.
#
# The prompts are written by the model itself at temperature 1, in pieces of 2,000 tokens. Prints, per
# setting, drafts accepted of drafts made over all prompts, at temperature 0 and 0.7, and the bytes that a
# draft step reads. The text is the same for every setting: drafting changes the speed alone. One thread a
# run, as many runs at once as there are cores.
set -euo pipefail
cd "$(dirname "$0")/.."
export command=${1:-build/release/foretoken} model=${2:-models/foretoken-sample.gguf}
n_prompt=${N_PROMPT:-8}
dir=$(mktemp -d)
export dir
trap 'rm -rf "$dir"' EXIT

piece() { # PROMPT PIECE
    "$command" run -m "$model" -t 1 -p 'The' -n 2000 --temp 1 --top-k 0 --top-p 1 --min-p 0 \
        --seed $((100 * $1 + $2)) --ignore-eos --no-draft -q --echo > "$dir/piece$1-$2"
}
behind() { # SINK WINDOW TEMP PROMPT
    "$command" run -m "$model" -t 1 -c 16384 --chunk 512 --temp "$3" --seed "$4" -n 150 --ignore-eos \
        --draft-fixed --draft-max 3 --sink "$1" --window "$2" --json -q -f "$dir/prompt$4" \
        > "$dir/out-$1-$2-$3-$4.json"
}
export -f piece behind
all() { # FUNCTION: one call a line of standard input
    xargs -P "$(nproc)" -L 1 bash -c "$1 \"\$@\"" _
}

for ((i = 0; i < n_prompt; i++)); do
    printf "$i %d\n" 0 1 2 3 4 5 6
done | all piece
for ((i = 0; i < n_prompt; i++)); do
    cat "$dir/piece$i"-* > "$dir/pieces"
    head -c 46000 "$dir/pieces" > "$dir/prompt$i"
done
settings='0:64 0:256 0:all 64:64 64:256 64:all'
for s in $settings; do
    for temp in 0 0.7; do
        for ((i = 0; i < n_prompt; i++)); do
            echo "${s%:*} ${s#*:} $temp $i"
        done
    done
done | all behind

# Sum of a number that follows "key": in the JSON of several runs, at its outer level.
sum() {
    grep -h "^    \"$1\": [0-9]" "${@:2}" | awk -F'[:,]' '{ s += $2 } END { printf "%d", s }'
}
share() { # FILE...: accepted of drafted, with its standard error
    awk -v a="$(sum accepted "$@")" -v d="$(sum drafted "$@")" \
        'BEGIN { p = a / d; printf "%.1f %% +- %.1f of %d", 100 * p, 100 * sqrt(p * (1 - p) / d), d }'
}
printf '%-6s %-7s %-24s %-24s %s\n' sink window 'temperature 0' 'temperature 0.7' 'bytes a step'
for s in $settings; do
    out="$dir/out-${s%:*}-${s#*:}"
    printf '%-6s %-7s %-24s %-24s %s\n' "${s%:*}" "${s#*:}" "$(share "$out"-0-*)" "$(share "$out"-0.7-*)" \
        "$(sum bytes_per_step "$out"-0-0.json)"
done
echo "prompt tokens: $(sum prompt_tokens "$dir"/out-0-64-0-*) in $n_prompt prompts"
