#!/bin/bash
# eval.sh - `foretoken eval`: the same bytes for every chunk, thread and way of reading, after
# convert and quantize; shapes of what it writes; and what it refuses.
. tests/cli/common.bash

V=320 # of the tiny models
for family in qwen35 qwen35moe qwen4exp; do
    m=$tmp/$family.gguf
    model $family "$m"
    tokens tiny-$family/long.tokens.bin "$tmp/ids" # 60 of them
    width=64
    [ $family = qwen4exp ] && width=128
    for file in "$m" "$tmp/$family-q8_0.gguf"; do
        [ "$file" = "$m" ] || good quantize "$m" "$file" q8_0
        draft="--draft-logits $tmp/d --draft-chain 4 --draft-tokens $tmp/t"
        good eval -m "$file" --tokens "$tmp/ids" --logits "$tmp/l" --hidden "$tmp/h" $draft
        [ "$(count "$tmp/d")" -eq $(((59 + 4) * V * 4)) ] || fail "$family: size of the draft logits"
        [ "$(count "$tmp/t")" -eq $((5 * 4)) ] || fail "$family: number of drafts"
        [ "$(count "$tmp/l")" -eq $((60 * V * 4)) ] || fail "$family: size of the logits"
        [ "$(count "$tmp/h")" -eq $((60 * width * 4)) ] || fail "$family: size of the hidden rows"
        for how in "--chunk 1" "--chunk 7" "--chunk 512" "--decode-from 0" "--decode-from 45" \
            "--decode-from 45 --chunk 7" "--decode-from 59" "--decode-from 1000" "-t 1" \
            "--ctx-size 60"; do
            draft="--draft-logits $tmp/d2 --draft-chain 4 --draft-tokens $tmp/t2"
            good eval -m "$file" --tokens "$tmp/ids" --logits "$tmp/l2" --hidden "$tmp/h2" $draft $how
            for rows in l h d t; do
                cmp -s "$tmp/$rows" "$tmp/${rows}2" || fail "$family $how: other bits in $rows"
            done
        done
    done
done
m=$tmp/qwen4exp.gguf

# Other caches and the dense reading are something else, of the same size.
good eval -m "$m" --tokens "$tmp/ids" --logits "$tmp/f16"
for how in "--kv f32" "--kv q8_0" "--dense"; do
    good eval -m "$m" --tokens "$tmp/ids" --logits "$tmp/other" $how
    [ "$(count "$tmp/other")" -eq "$(count "$tmp/f16")" ] || fail "$how: size"
    cmp -s "$tmp/other" "$tmp/f16" && fail "$how changes nothing"
done
good eval -m "$m" --tokens "$tmp/ids" --logits "$tmp/generic" --cpu generic
[ "$(count "$tmp/generic")" -eq "$(count "$tmp/f16")" ] || fail "--cpu generic: size"

# Ids from a pipe, in any white space; rows to standard output.
good eval -m "$m" --tokens "$tmp/ids" --logits "$tmp/want"
tr -s ' \n' '\t\r' <"$tmp/ids" | "$FORETOKEN" eval -m "$m" --tokens - --logits - >"$tmp/piped" ||
    fail "tokens from a pipe"
same "$tmp/want" "$tmp/piped"

# Stages: a file a name, the same rows whatever the chunk.
good eval -m "$m" --tokens "$tmp/ids" --stages "$tmp/one"
good eval -m "$m" --tokens "$tmp/ids" --stages "$tmp/many" --chunk 7
[ "$(count "$tmp/one/stage_L3.out.bin")" -eq $((60 * 128 * 4)) ] || fail "size of a stage"
[ "$(ls "$tmp/one" | wc -l)" -ge 40 ] || fail "too few stages: $(ls "$tmp/one")"
for f in "$tmp/one"/*.bin; do same "$f" "$tmp/many/${f##*/}"; done
good eval -m "$m" --tokens "$tmp/ids" --stages "$tmp/many" # a second run replaces the first
for f in "$tmp/one"/*.bin; do same "$f" "$tmp/many/${f##*/}"; done

# What is refused.
bad 2 "give --tokens FILE and at least one of" eval -m "$m" --tokens "$tmp/ids"
bad 2 "give --tokens FILE" eval -m "$m" --logits "$tmp/x"
bad 2 "no model; give one with -m FILE" eval --tokens "$tmp/ids" --logits "$tmp/x"
bad 2 "no model; give one with -m FILE" eval -m "" --tokens "$tmp/ids" --logits "$tmp/x"
bad 2 "--chunk: '0' is not a whole number from 1 to 4096" eval -m "$m" --chunk 0
bad 2 "--chunk: '4097' is not" eval -m "$m" --chunk 4097
bad 2 "--chunk: '7x' is not" eval -m "$m" --chunk 7x
bad 2 "--chunk: '99999999999999999999' is not" eval -m "$m" --chunk 99999999999999999999
bad 2 "--chunk: '' is not" eval -m "$m" --chunk=
bad 2 "--decode-from: '-2' is not a whole number from -1" eval -m "$m" --decode-from -2
bad 2 "--threads: '1025' is not a whole number from 0 to 1024" eval -m "$m" -t 1025
bad 2 "--kv: 'q4' is not one of f16|f32|q8_0" eval -m "$m" --kv q4
bad 2 "--cpu: 'sse' is not one of generic|avx2|avx512|neon|i8mm" eval -m "$m" --cpu sse
bad 2 "unexpected argument extra" eval -m "$m" extra
bad 1 "$tmp/none.gguf" eval -m "$tmp/none.gguf" --tokens "$tmp/ids" --logits "$tmp/x"
bad 1 "$tmp/none" eval -m "$m" --tokens "$tmp/none" --logits "$tmp/x"
bad 1 "Is a directory" eval -m "$m" --tokens "$tmp" --logits "$tmp/x"
bad 1 "(--ctx-size)" eval -m "$m" --tokens "$tmp/ids" --logits "$tmp/x" -c 59
ids() { # WORDS LIST
    printf -- "$2" >"$tmp/list"
    bad 1 "$1" eval -m "$m" --tokens "$tmp/list" --logits "$tmp/x"
}
ids "no token ids" ""
ids "no token ids" " \n "
ids "'one' at byte 2 is not a token id" "1 one 2"
ids "'-1' at byte 0 is not a token id" "-1"
ids "'1.5' at byte 2 is not a token id" "7 1.5"
ids "at byte 0 is not a token id" "2147483648"
ids "at byte 0 is not a token id" "99999999999999999999"
ids "at byte 2 is not a token id" '1 \0 2'
ids "--tokens: token 2 is 320, want 0 to 319" "1 2 320"
[ ! -e "$tmp/x" ] || fail "a refused evaluation leaves a file"
bad 1 "$tmp/no/x" eval -m "$m" --tokens "$tmp/ids" --logits "$tmp/no/x"
bad 1 "$tmp: Is a directory" eval -m "$m" --tokens "$tmp/ids" --hidden "$tmp"
bad 1 "$tmp/no/dir" eval -m "$m" --tokens "$tmp/ids" --stages "$tmp/no/dir"
bad 1 "Not a directory" eval -m "$m" --tokens "$tmp/ids" --stages "$tmp/ids"
if [ -w /dev/full ]; then
    bad 1 "/dev/full: No space left" eval -m "$m" --tokens "$tmp/ids" --logits /dev/full
fi

help_lists eval --model --mtp --threads --cpu --kv --chunk --ctx-size --tokens --logits --hidden \
    --stages --decode-from --dense --draft-logits --draft-chain --draft-tokens --sink --window
finish
