#!/bin/bash
# quantize.sh - `foretoken quantize`: every type, overrides, the report, and what it refuses.
. tests/cli/common.bash

model qwen35moe "$tmp/m.gguf"
size=$(count "$tmp/m.gguf")
for type in f32 f16 bf16 q8_0 q5_0 q5_1 q4_0 q4_1 iq4_nl q2_0; do
    good quantize "$tmp/m.gguf" "$tmp/$type.gguf" $type
    has "$tmp/out" "total "
    has "$tmp/out" "token_embd.weight"
    good inspect --json "$tmp/$type.gguf"
    json "$tmp/out"
    [ $type = f32 ] || [ "$(count "$tmp/$type.gguf")" -lt "$size" ] || fail "$type is not smaller"
done
good run -m "$tmp/q4_0.gguf" -p "the hen" -n 3 -q --temp 0

# The report as JSON; its sums are those of the files.
good quantize "$tmp/m.gguf" "$tmp/json.gguf" Q8_0 --json
json "$tmp/out"
same "$tmp/json.gguf" "$tmp/q8_0.gguf"
[ "$(value "$tmp/out" bytes_to)" -lt "$(value "$tmp/out" bytes_from)" ] || fail "bytes of the report"
[ "$(grep -c '"rel_rmse"' "$tmp/out")" -eq "$(("$FORETOKEN" inspect --json "$tmp/m.gguf") | grep -c '"shard"')" ] ||
    fail "not one entry a tensor"

# Overrides: the first that fits wins; one that fits nothing is a mistake.
good quantize "$tmp/m.gguf" "$tmp/over.gguf" q8_0 --tensor 'token_embd*=f16' --tensor '*embd*=q4_0' \
    --tensor=output.weight=bf16
grep -q '^token_embd.weight .* F16 ' "$tmp/out" || fail "first override: $(grep embd "$tmp/out")"
grep -q '^output.weight .* BF16 ' "$tmp/out" || fail "last override: $(grep ^output.w "$tmp/out")"
bad 2 "no tensor matches the override 'nothing*'" quantize "$tmp/m.gguf" "$tmp/x.gguf" q8_0 --tensor 'nothing*=f16'
bad 2 "'token_embd', want PATTERN=TYPE" quantize "$tmp/m.gguf" "$tmp/x.gguf" q8_0 --tensor token_embd
bad 2 "type 'q9', want one of" quantize "$tmp/m.gguf" "$tmp/x.gguf" q8_0 --tensor '*=q9'
many=()
for i in {1..65}; do many+=(--tensor '*=f16'); done
bad 2 "--tensor: '*=f16' is not taken: at most 64" quantize "$tmp/m.gguf" "$tmp/x.gguf" q8_0 "${many[@]}"

# Other mistakes.
bad 2 "type 'q3', want one of F32 F16" quantize "$tmp/m.gguf" "$tmp/x.gguf" q3
bad 2 "an argument is missing" quantize "$tmp/m.gguf" "$tmp/x.gguf"
bad 2 "unexpected argument more" quantize "$tmp/m.gguf" "$tmp/x.gguf" q8_0 more
bad 2 "a value is missing behind --tensor" quantize a b q8_0 --tensor
cp "$tmp/m.gguf" "$tmp/same.gguf"
ln -s same.gguf "$tmp/link.gguf"
bad 2 "is the input" quantize "$tmp/same.gguf" "$tmp/same.gguf" q8_0
bad 2 "is the input" quantize "$tmp/same.gguf" "$tmp/link.gguf" q8_0
bad 2 "is the input" quantize "$tmp/link.gguf" "$tmp/same.gguf" q8_0
same "$tmp/same.gguf" "$tmp/m.gguf"
bad 1 "$tmp/none.gguf" quantize "$tmp/none.gguf" "$tmp/x.gguf" q8_0
bad 1 "not a regular file" quantize "$tmp" "$tmp/x.gguf" q8_0
bad 1 "vocab.gguf: no tensors" quantize tests/golden/tokenizer/vocab.gguf "$tmp/x.gguf" q8_0
head -c $((size - 1)) "$tmp/m.gguf" >"$tmp/cut.gguf"
bad 1 "cut.gguf" quantize "$tmp/cut.gguf" "$tmp/x.gguf" q8_0
bad 1 "$tmp/no/dir" quantize "$tmp/m.gguf" "$tmp/no/dir/x.gguf" q8_0
run quantize "$tmp/m.gguf" "$tmp" q8_0
[ $rc -eq 1 ] && has "$tmp/err" "$tmp"
[ ! -e "$tmp/x.gguf" ] || fail "a refused quantization leaves a file"

# A folder that may not be written; root may.
mkdir "$tmp/ro" && chmod 555 "$tmp/ro"
if [ ! -w "$tmp/ro" ]; then
    bad 1 "$tmp/ro/x.gguf" quantize "$tmp/m.gguf" "$tmp/ro/x.gguf" q8_0
fi

# A reader of the report that goes away does not cost the file.
without_reader quantize "$tmp/m.gguf" "$tmp/piped.gguf" q8_0
[ $rc -eq 0 ] || fail "quantize without a reader: $rc $(cat "$tmp/err")"
same "$tmp/piped.gguf" "$tmp/q8_0.gguf"

help_lists quantize --tensor --json
finish
