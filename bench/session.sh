#!/bin/bash
# session.sh [COMMAND [MODEL]] - what checkpoints and session files save, on a conversation of 12,000 tokens.
#
# The text is written by the model itself at temperature 1. It is read cold and answered with 200 tokens; the
# state behind the answer goes to a file. Each further run is a process of its own that starts from this file:
# the same text once more (another answer to the same prompt), one token more, and a text whose last tenth is
# another one. Prints tokens read, tokens known, and seconds until the first token; the file's size, and
# the median of five loads.
set -euo pipefail
cd "$(dirname "$0")/.."
command=${1:-build/release/foretoken} model=${2:-models/foretoken-sample.gguf}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
common=(-m "$model" -c 16384 --temp 0.8 --seed 1 --ignore-eos)

value() { # FILE KEY
    perl -0777 -ne '/"'"$2"'"\s*:\s*([-\d.e+]+)/ and print $1' "$1"
}
row() { # LABEL ARG...: a run, as a row
    local label=$1
    shift
    "$command" run "${common[@]}" --json -q "$@" >"$dir/out.json"
    printf '| %s | %d | %d | %.3f |\n' "$label" "$(value "$dir/out.json" prompt_tokens)" \
        "$(value "$dir/out.json" known_tokens)" "$(value "$dir/out.json" prompt_seconds)"
}

"$command" run -m "$model" -c 16384 -p The -n 11800 --temp 1 --top-k 0 --top-p 1 --min-p 0 --seed 1 \
    --ignore-eos -q --echo >"$dir/text"
{ cat "$dir/text" && printf ' And'; } >"$dir/longer"
{ head -c $(($(wc -c <"$dir/text") * 9 / 10)) "$dir/text" && cat README.md; } | head -c "$(wc -c <"$dir/text")" >"$dir/changed"

echo '| | tokens read | known | seconds to the first token |'
echo '|---|---|---|---|'
row 'read cold, answered with 200 tokens' -f "$dir/text" -n 200 --save "$dir/session"
row 'another answer to the same text' --session "$dir/session" -f "$dir/text" -n 1
row 'the text and one word more' --session "$dir/session" -f "$dir/longer" -n 1
row 'the last tenth is another text' --session "$dir/session" -f "$dir/changed" -n 1
row 'going on behind the answer' --session "$dir/session" -n 1
for _ in 1 2 3 4 5; do
    "$command" session load -m "$model" -c 16384 "$dir/session" -n 0 --json >"$dir/out.json"
    value "$dir/out.json" load_seconds && echo
done | sort -g | sed -n 3p >"$dir/load"
"$command" session info "$dir/session" | sed -n 's/^size  *//p; s/^tokens  *//p'
printf 'load: %.3f s\n' "$(cat "$dir/load")"
