#!/bin/bash
# bits.sh - the same bits on two kinds of processor: the logits, the hidden rows and the drafts of
# every family, in float and in quantised weights, from the command of this machine ($FORETOKEN_HOST)
# and from the one for aarch64 ($FORETOKEN) at each of its levels. Bug: an instruction set, a type
# of another sign, an alignment or a library's function that changes a result. Files made by either
# command are the same, too.
. tests/cli/common.bash

# evaluate COMMAND SUFFIX FILE ARG...: into $tmp/{l,h,d,t}SUFFIX
evaluate() {
    local FORETOKEN=$1 end=$2 file=$3
    shift 3
    good eval -m "$file" --tokens "$tmp/ids" --logits "$tmp/l$end" --hidden "$tmp/h$end" \
        --draft-logits "$tmp/d$end" --draft-chain 4 --draft-tokens "$tmp/t$end" "$@"
}

# made FILE ARG...: what $FORETOKEN made of ARG is in FILE; the other command makes the same.
made() {
    local FORETOKEN=$FORETOKEN_HOST file=$1
    shift
    good "$@"
    cmp -s "$file" "$tmp/host.gguf" || fail "${file##*/}: made otherwise by $FORETOKEN"
}

for family in qwen35 qwen35moe qwen4exp; do
    m=$tmp/$family.gguf
    model $family "$m"
    made "$m" convert "$tmp/hf-$family" -o "$tmp/host.gguf" --type f32
    tokens tiny-$family/long.tokens.bin "$tmp/ids"
    for file in "$m" "$tmp/$family-q8_0.gguf" "$tmp/$family-q4_0.gguf"; do
        type=${file#"$tmp/$family-"} type=${type%.gguf}
        if [ "$file" != "$m" ]; then
            good quantize "$m" "$file" "$type"
            rm "$tmp/host.gguf"
            made "$file" quantize "$m" "$tmp/host.gguf" "$type"
        fi
        for kv in f16 q8_0; do
            evaluate "$FORETOKEN_HOST" "" "$file" --kv $kv
            for level in generic neon i8mm; do
                evaluate "$FORETOKEN" 2 "$file" --kv $kv --cpu "$level"
                for rows in l h d t; do
                    cmp -s "$tmp/$rows" "$tmp/${rows}2" ||
                        fail "${file##*/}, $level, kv $kv: other bits in $rows"
                done
            done
        done
    done
done
finish
