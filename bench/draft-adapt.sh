#!/bin/bash
# draft-adapt.sh [COMMAND [MODEL]] - does the adaptive number of drafts find the best fixed one?
#
# 500 tokens (N_TOKENS) behind each of eight prompts, at temperature 0 and 0.7, one thread, plain, with 1 to
# 4 fixed drafts, and adaptive with a limit of 3 and of 8. The settings take turns, so that another load of
# the machine meets them all; N_REPEAT (5) times. Prints, per setting, the medians of tokens a second and of
# tokens a round and the ratio to the median of the plain runs; and for the adaptive ones the ratio to the
# best fixed number, one for all prompts. On a busy machine the medians of 40 runs vary by 3 %.
set -euo pipefail
cd "$(dirname "$0")/.."
command=${1:-build/release/foretoken}
model=${2:-models/foretoken-sample.gguf}
n_tokens=${N_TOKENS:-500}
n_repeat=${N_REPEAT:-5}
rates=$(mktemp)
trap 'rm -f "$rates"' EXIT

prompts=('It was a dark night, and the old man' 'The captain of the ship said that'
    'When the spring came, she' 'In the middle of the room there' 'My dear friend, I have'
    'Of all the cities in the world' 'He opened the letter and' 'There is no doubt that the king')
settings=('plain --no-draft')
for k in 1 2 3 4; do
    settings+=("fixed-$k --draft-max $k --draft-fixed")
done
settings+=('adaptive-3 --draft-max 3' 'adaptive-8 --draft-max 8')

value() { # KEY, of the JSON on standard input; 0: it has none
    awk -F'[:,]' -v key="\"$1\"" '$1 ~ key { v = $2 } END { print v + 0 }'
}
for ((repeat = 0; repeat < n_repeat; repeat++)); do
    for temp in 0 0.7; do
        for i in "${!prompts[@]}"; do
            for setting in "${settings[@]}"; do
                read -r name options <<< "$setting"
                # shellcheck disable=SC2086 # several words
                json=$("$command" run -m "$model" -t 1 -p "${prompts[i]}" -n "$n_tokens" --temp "$temp" \
                    --seed $((1 + i)) --ignore-eos --json -q $options)
                echo "$name $temp $(value decode_tokens_per_second <<< "$json")" \
                    "$(value tokens_per_round <<< "$json")"
            done
        done
    done
done > "$rates"

# Lines "name temperature tokens/s tokens-a-round" to the table.
awk '
function median(list,   a, n, i, j, x) {
    n = split(list, a, " ")
    for (i = 2; i <= n; i++) {
        x = a[i] + 0
        for (j = i - 1; j > 0 && a[j] + 0 > x; j--)
            a[j + 1] = a[j]
        a[j + 1] = x
    }
    return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
}
{
    if (!(($1, $2) in rate)) {
        if (!seen[$1]++) name[++n_name] = $1
        if (!seen[$2]++) temp[++n_temp] = $2
    }
    rate[$1, $2] = rate[$1, $2] " " $3
    round[$1, $2] = round[$1, $2] " " $4
}
END {
    printf "%-11s %-12s %9s %9s %14s\n", "temperature", "setting", "tokens/s", "to plain", "tokens a round"
    for (t = 1; t <= n_temp; t++) {
        best = 0
        for (i = 1; i <= n_name; i++) {
            r[i] = median(rate[name[i], temp[t]])
            if (name[i] == "plain") plain = r[i]
            if (name[i] ~ /^fixed/ && r[i] > best) best = r[i]
        }
        for (i = 1; i <= n_name; i++) {
            printf "%-11s %-12s %9.0f %9.3f %14.2f", temp[t], name[i], r[i], r[i] / plain,
                median(round[name[i], temp[t]])
            if (name[i] ~ /^adaptive/) printf "   %.3f of the best fixed", r[i] / best
            print ""
        }
    }
}' "$rates"
