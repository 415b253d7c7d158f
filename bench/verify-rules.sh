#!/bin/bash
# verify-rules.sh [COMMAND [MODEL]] - every rule of verification with both kinds of drafts: acceptance by
# depth, tokens per round, tokens per second. Three drafts a round, 400 tokens behind each of N_SEED (5)
# seeds, runs of all settings interleaved; medians of tokens/s.
set -euo pipefail
cd "$(dirname "$0")/.."
command=${1:-build/release/foretoken}
model=${2:-models/foretoken-sample.gguf}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
settings='coupled:sampled coupled:argmax block:sampled ratio:sampled ratio:argmax greedy-match:argmax none:none'

one() { # RULE KIND TEMP SEED
    local how="--verify $1 --draft-sampling $2 --draft-fixed --draft-max 3"
    [ "$1" != none ] || how=--no-draft
    # shellcheck disable=SC2086
    "$command" run -m "$model" -t 2 -p 'It was a dark night, and the old man' -n 400 --ignore-eos --temp "$3" \
        --seed "$4" $how --json -q > "$dir/$1-$2-$3-$4.json"
}
for ((seed = 1; seed <= ${N_SEED:-5}; seed++)); do
    for temp in 0 0.6 1.0; do
        for s in $settings; do
            one "${s%:*}" "${s#*:}" "$temp" "$seed"
        done
    done
done

value() { # KEY FILE...: the numbers behind a key at the outer level, a line each
    sed -n "s/^    \"$1\": \\([0-9.]*\\),*\$/\\1/p" "${@:2}"
}
depth() { # FILE...: accepted of verified, by depth, over all files
    awk '/"verified":/ { gsub(/[^0-9]/, ""); v = $0; d++ }
         /^        "accepted":/ { gsub(/[^0-9]/, ""); a[d] += $0; n[d] += v }
         FNR == 1 { d = 0 }
         END { for (i = 1; i <= 3; i++) if (n[i]) printf "%5.1f ", 100 * a[i] / n[i] }' "$@"
}
printf '%-5s %-13s %-8s %-18s %-13s %s\n' temp rule drafts 'by depth, %' tokens/round 'tokens/s'
for temp in 0 0.6 1.0; do
    for s in $settings; do
        files=("$dir/${s%:*}-${s#*:}-$temp"-*.json)
        printf '%-5s %-13s %-8s %-18s %-13s %s\n' "$temp" "${s%:*}" "${s#*:}" "$(depth "${files[@]}")" \
            "$(value tokens_per_round "${files[@]}" | awk '{ s += $1 } END { printf "%.2f", s / NR }')" \
            "$(value decode_tokens_per_second "${files[@]}" | sort -n | awk '{ x[NR] = $1 } END { printf "%.0f", x[int((NR + 1) / 2)] }')"
    done
done
