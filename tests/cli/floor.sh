#!/bin/bash
# floor.sh - `foretoken floor`: published figures, files and shapes, bandwidth, refusals.
. tests/cli/common.bash

# line TEXT: the numbers of the last run's first line that begins with the text.
line() {
    grep -F -m1 -e "  $1  " "$tmp/out" | sed -E "s/^.*$1 +//; s/ +/ /g"
}

# The published account of a draft step.
good floor --shape qwen3.8-flash-next --bandwidth 120
for want in "fc_embedding|Q8_0 6.963" "fc_hidden|Q8_0 6.963" "mixers|Q8_0 20.977" "k, v|Q8_0 2.785" \
    "q|Q8_0 33.423" "o|Q8_0 16.712" "router|Q8_0 1.393" "shared expert|Q8_0 5.222" \
    "routed experts|Q2_0 13.824" "head|IQ4_XS 55.114" "total|163.381" \
    "draft step, the naive way|186.0 1.55" "draft step|163.4 1.36" \
    "draft step, wide matrices in Q5_0|138.9 1.16" "draft step, wide matrices in Q4_0|130.8 1.09"; do
    got=$(line "${want%%|*}")
    case $got in
    "${want#*|}"*) ;;
    *) fail "${want%%|*}: '$got', want '${want#*|}'" ;;
    esac
done
has "$tmp/out" "10 of 512"
has "$tmp/out" "floors at 120.0 GB/s"
good floor --shape qwen3.8-flash-next --bandwidth 120 --draft-quant q4_0 --json
json "$tmp/out"
perl -0777 -ne '/"draft": \{.*?"bytes": (\d+)/s; exit !($1 > 130.5e6 && $1 < 131.5e6)' "$tmp/out" || fail "JSON: draft"
[ "$(value "$tmp/out" draft_vocab)" = 40525 ] || fail "JSON: draft vocabulary"

# Other settings.
good floor --shape qwen3.5-4b --type q4_0 --bandwidth 50 --depth 4096 --rows 1 --kv q8_0 --tensors
has "$tmp/out" "4097 cells"
has "$tmp/out" "read and written"
has "$tmp/out" "8 x [8192 x 2560]"
grep -q "drafts a round" "$tmp/out" && fail "a window of one row has no drafts"
good floor --shape qwen3.8-flash-next --bandwidth 120 --draft-vocab-size all
has "$tmp/out" "draft vocabulary 248320 of 248320"
good floor --shape list
for shape in qwen3.5-0.8b qwen3.5-2b qwen3.5-4b qwen3.5-9b qwen3.5-27b qwen3.5-35b-a3b qwen3.8-flash-next; do
    grep -q "^$shape  *[a-z]" "$tmp/out" || fail "--shape list lacks $shape"
done
good floor --shape list --json
json "$tmp/out"

# Files, with and without a draft head; the bandwidth is measured.
model qwen4exp "$tmp/m.gguf"
good floor -m "$tmp/m.gguf"
has "$tmp/out" "GB/s (measured)"
has "$tmp/out" "all accepted"
good floor -m "$tmp/m.gguf" --bandwidth 10 --json
json "$tmp/out"
[ "$(value "$tmp/out" measured)" = false ] || fail "JSON: measured"

# Refusals.
bad 2 "--shape NAME" floor
bad 2 "--shape NAME" floor -m "$tmp/m.gguf" --shape qwen3.5-4b
bad 2 "--type is for --shape" floor -m "$tmp/m.gguf" --type q8_0
bad 2 "a shape has no files" floor --shape qwen3.5-4b --mtp "$tmp/m.gguf"
bad 2 "not both" floor --shape qwen3.5-4b --measure --bandwidth 1
bad 2 "--shape: 'qwen'" floor --shape qwen
bad 2 "--type: 'q9'" floor --shape qwen3.5-4b --type q9
bad 2 "--draft-vocab-size: 248321, want 0 to 248320" floor --shape qwen3.5-4b --draft-vocab-size 248321
bad 2 "--rows" floor --shape qwen3.5-4b --rows 0
bad 2 "--depth" floor --shape qwen3.5-4b --depth -1
bad 2 "--bandwidth" floor --shape qwen3.5-4b --bandwidth nan
bad 1 "Makefile" floor -m Makefile
bad 1 "none.gguf" floor -m "$tmp/none.gguf"
finish
