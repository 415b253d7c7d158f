#!/bin/bash
# convert.sh - `foretoken convert`: three families with a tokenizer, types, and what it refuses.
. tests/cli/common.bash

for family in qwen35 qwen35moe qwen4exp; do
    checkpoint $family "$tmp/$family"
    good convert "$tmp/$family" -o "$tmp/$family.gguf"
    good inspect --json "$tmp/$family.gguf"
    json "$tmp/out"
    [ "$(value "$tmp/out" architecture)" = $family ] || fail "architecture of $family"
    [ "$(value "$tmp/out" tokenizer)" = true ] || fail "no tokenizer in $family"
    [ "$(value "$tmp/out" mtp)" = true ] || fail "no draft head in $family"
    for type in f16 bf16 q8_0; do
        good convert "$tmp/$family" --output="$tmp/$family-$type.gguf" --type $type
        [ "$(count "$tmp/$family-$type.gguf")" -lt "$(count "$tmp/$family.gguf")" ] ||
            fail "$type is not smaller"
    done
done

# The same bytes again; an old file is replaced, a failed conversion leaves it.
cp "$tmp/qwen35.gguf" "$tmp/kept.gguf"
good convert "$tmp/qwen35" -o "$tmp/kept.gguf"
same "$tmp/kept.gguf" "$tmp/qwen35.gguf"
head -c 100000 "$tmp/qwen35/model.safetensors" >"$tmp/cut" && mv "$tmp/cut" "$tmp/qwen35/model.safetensors"
bad 1 model.safetensors convert "$tmp/qwen35" -o "$tmp/kept.gguf"
same "$tmp/kept.gguf" "$tmp/qwen35.gguf"
[ "$(ls "$tmp" | grep -c kept)" -eq 1 ] || fail "a failed conversion leaves $(ls "$tmp" | grep kept)"

# What is refused: option or file, and what is accepted.
bad 2 "no output; give one with -o FILE" convert "$tmp/qwen35moe"
bad 2 "an argument is missing" convert -o "$tmp/x.gguf"
bad 2 "unexpected argument b" convert a b -o "$tmp/x.gguf"
bad 2 "--type: 'q9' is not one of f32|f16|bf16|q8_0" convert a -o "$tmp/x.gguf" --type q9
bad 2 "a value is missing behind --type" convert a -o "$tmp/x.gguf" --type
bad 2 "unknown option --tpye" convert a --tpye f16
bad 2 "unknown option -x" convert a -x
bad 1 "$tmp/nowhere" convert "$tmp/nowhere" -o "$tmp/x.gguf"
bad 1 "config.json" convert "$tmp" -o "$tmp/x.gguf"
bad 1 "$tmp/no/such/place" convert "$tmp/qwen35moe" -o "$tmp/no/such/place.gguf"
bad 1 "$tmp" convert "$tmp/qwen35moe" -o "$tmp"
echo '{' >"$tmp/qwen4exp/tokenizer.json"
bad 1 tokenizer.json convert "$tmp/qwen4exp" -o "$tmp/x.gguf"
echo '{"model_type":"llama"}' >"$tmp/qwen4exp/config.json"
bad 1 llama convert "$tmp/qwen4exp" -o "$tmp/x.gguf"
[ ! -e "$tmp/x.gguf" ] || fail "a refused conversion leaves a file"

help_lists convert --output --type
finish
