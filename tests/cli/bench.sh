#!/bin/bash
# bench.sh - `foretoken bench`: its figures in every form, synthetic models, kernels, what it refuses; and
# bench/compare.sh against programs that only pretend to be others.
. tests/cli/common.bash

model qwen35 "$tmp/m.gguf"
few=(-t 2 --prompt 8 --decode 6 --repeat 2)

# The table: a line for everything that was asked for, none wider than a terminal.
good bench -m "$tmp/m.gguf" "${few[@]}" --depths 0,40 --temps 0,0.7 --rules coupled,block --draft-max 2
awk 'length > 100' "$tmp/out" >"$tmp/wide"
[ ! -s "$tmp/wide" ] || fail "wide lines: $(cat "$tmp/wide")"
for line in '0  prompt +- +- +[0-9]' '40  decode +- +0\.7 +[0-9]' '40  drafting +block +0\.7 .* [1-3]\.[0-9]+$' \
    '0  draft step +- +0 +- ' '40  verify 3 rows +- +0 +- ' '0  sampling +coupled +0 +- '; do
    grep -qE "^ +$line" "$tmp/out" || fail "no line '$line' in the table: $(cat "$tmp/out")"
done
[ "$(grep -c '^ *40  drafting' "$tmp/out")" -eq 4 ] || fail "want 2 rules x 2 temperatures"

# JSON, CSV and a picture of the same runs.
good bench -m "$tmp/m.gguf" "${few[@]}" --json --csv "$tmp/b.csv" --svg "$tmp/b.svg"
json "$tmp/out"
for key in machine bandwidth tokens_per_second floor_bytes floor_ms efficiency tokens_per_round; do
    has "$tmp/out" "\"$key\":"
done
[ "$(grep -c '"what"' "$tmp/out")" -eq "$(($(wc -l <"$tmp/b.csv") - 1))" ] || fail "lines of CSV and JSON"
awk -F'"[^"]*"|,' '{ n[NF] } END { for (i in n) k++; exit k != 1 }' <(sed 's/"[^"]*"/x/g' "$tmp/b.csv") ||
    fail "the CSV has lines of different lengths"
has "$tmp/b.svg" '</svg>'
has "$tmp/b.svg" 'prefers-color-scheme: dark'
[ "$(grep -c '<rect class="bar"' "$tmp/b.svg")" -ge 6 ] || fail "bars are missing: $(grep -c bar "$tmp/b.svg")"
grep -q '<rect class="mark"' "$tmp/b.svg" || fail "no floor in the picture"
grep -qE '="[^"]*(nan|inf)' "$tmp/b.svg" && fail "a place in the picture that is no number"
if command -v xmllint >/dev/null; then
    xmllint --noout "$tmp/b.svg" || fail "the picture is no XML"
fi

# Without a draft head, or without drafts, there are no such lines.
good bench -m "$tmp/m.gguf" "${few[@]}" --draft-max 0 --prompt 0
grep -qE '^ +0  (drafting|draft step|verif|prompt)' "$tmp/out" && fail "lines that were not asked for: $(cat "$tmp/out")"

# Several sessions at once: a line for every count, one alone first; JSON; without drafts; bench/sessions.sh.
good bench -m "$tmp/m.gguf" "${few[@]}" --sessions 2,3 --depths 0,40 --draft-max 2
[ "$(grep -cE '^ +(0|40) +(-|2) +[123] +0 +[0-9.]+ +[0-9.]+ % +[0-9.]+ +[1-3]\.[0-9]+ ' "$tmp/out")" -eq 12 ] ||
    fail "want 2 depths x 2 ways x 3 counts: $(cat "$tmp/out")"
[ "$(grep -cE '^ +(0|40) +(-|2) +1 +0 +[0-9.]+ +[0-9.]+ % +1\.00 ' "$tmp/out")" -eq 4 ] || fail "one by one is 1"
awk 'length > 100' "$tmp/out" >"$tmp/wide"
[ ! -s "$tmp/wide" ] || fail "wide lines: $(cat "$tmp/wide")"
good bench -m "$tmp/m.gguf" "${few[@]}" --sessions 2 --draft-max 0 --json
json "$tmp/out"
[ "$(grep -c '"sessions"' "$tmp/out")" -eq 2 ] || fail "want lines of 1 and 2 sessions: $(cat "$tmp/out")"
bench/sessions.sh -o "$FORETOKEN" -m "$tmp/m.gguf" -s 2 -n 6 -r 1 >"$tmp/out" 2>"$tmp/err" ||
    fail "sessions.sh: $(cat "$tmp/err")"
[ "$(grep -c '^load average' "$tmp/out")" -eq 2 ] || fail "sessions.sh: $(cat "$tmp/out")"

# Text instead of random tokens.
good bench -m "$tmp/m.gguf" "${few[@]}" -f README.md
: >"$tmp/empty"
bad 1 "no text" bench -m "$tmp/m.gguf" "${few[@]}" -f "$tmp/empty"

# A synthetic model: the same file twice, usable, of the right kind; and one that is never seen.
shape=(--shape qwen3.5-0.8b --type q2_0 --layers 4)
good bench "${shape[@]}" --write-synthetic "$tmp/s.gguf"
good bench "${shape[@]}" --write-synthetic "$tmp/s2.gguf"
same "$tmp/s.gguf" "$tmp/s2.gguf"
rm "$tmp/s2.gguf"
good inspect "$tmp/s.gguf"
has "$tmp/out" "draft head (MTP)"
good run -m "$tmp/s.gguf" -p "hello there" -n 2 -q --ignore-eos
rm "$tmp/s.gguf"
mkdir "$tmp/scratch"
TMPDIR=$tmp/scratch good bench "${shape[@]}" "${few[@]}"
has "$tmp/out" "qwen3.5-0.8b: qwen35, "
[ -z "$(ls "$tmp/scratch")" ] || fail "the synthetic model is left: $(ls -R "$tmp/scratch")"

# Kernels.
good bench --kernels --type q8_0 -t 2 --csv "$tmp/k.csv"
grep -qE '^ +512 +[0-9.]+ +[0-9.]+ % +[0-9.]+ +[0-9]+ % +[0-9.]+$' "$tmp/out" || fail "kernels: $(cat "$tmp/out")"
[ "$(grep -c ^Q8_0, "$tmp/k.csv")" -eq 6 ] || fail "kernels as CSV: $(cat "$tmp/k.csv")"

# Mistakes.
bad 2 "want one of -m FILE and --shape NAME" bench
bad 2 "want one of -m FILE and --shape NAME" bench -m "$tmp/m.gguf" --shape qwen3.5-0.8b
bad 2 "'qwen9', want one of qwen3.5-0.8b" bench --shape qwen9
bad 2 "type: 'q9'" bench --shape qwen3.5-0.8b --type q9 --write-synthetic "$tmp/x.gguf"
bad 2 "want a --shape NAME" bench -m "$tmp/m.gguf" --write-synthetic "$tmp/x.gguf"
bad 2 "--depths: 'x' is not one of" bench -m "$tmp/m.gguf" --depths 0,x
bad 2 "--depths: '' is not one of" bench -m "$tmp/m.gguf" --depths 0,
bad 2 "--depths: '1.5' is not one of" bench -m "$tmp/m.gguf" --depths 1.5
bad 2 "--temps: '-1' is not one of" bench -m "$tmp/m.gguf" --temps=-1
bad 2 "--temps: 'nan' is not one of" bench -m "$tmp/m.gguf" --temps nan
bad 2 "--sessions: '0' is not one of" bench -m "$tmp/m.gguf" --sessions 1,0
bad 2 "--sessions: '65' is not one of" bench -m "$tmp/m.gguf" --sessions 65
bad 2 "no --csv or --svg" bench -m "$tmp/m.gguf" --sessions 2 --csv "$tmp/x.csv"
bad 2 "--rules: 'blocks' is not one of" bench -m "$tmp/m.gguf" --rules coupled,blocks
bad 2 "--repeat: '0' is not a whole number from 1 to 100" bench -m "$tmp/m.gguf" --repeat 0
bad 2 "type: 'iq9' cannot be multiplied" bench --kernels --type iq9
bad 1 "$tmp/none.gguf" bench -m "$tmp/none.gguf"
bad 1 "$tmp/no/dir" bench "${shape[@]}" --write-synthetic "$tmp/no/dir/x.gguf"
run bench -m "$tmp/m.gguf" "${few[@]}" --csv "$tmp/no/dir/b.csv"
[ $rc -eq 1 ] && has "$tmp/err" "$tmp/no/dir/b.csv"
[ ! -e "$tmp/x.gguf" ] || fail "a refused model leaves a file"

# compare.sh with a benchmark program that knows what it prints: ratios follow from its figures.
cat >"$tmp/fake-bench" <<'EOF'
#!/bin/bash
[[ " $* " == *" -r 1 -o json "* && " $* " == *" --own "* ]] || { echo "fake: wrong flags: $*" >&2; exit 1; }
printf '[\n  {\n    "n_prompt": 8,\n    "n_gen": 0,\n    "avg_ts": 0.5\n  },\n  {\n    "n_prompt": 0,\n    "n_gen": 6,\n    "avg_ts": 1e9\n  }\n]\n'
EOF
chmod +x "$tmp/fake-bench"
compare=(bench/compare.sh -o "$FORETOKEN" -m "$tmp/m.gguf" -p 8 -n 6)
"${compare[@]}" -c "$tmp/c.csv" "fake=$tmp/fake-bench --own" >"$tmp/out" 2>"$tmp/err" ||
    fail "compare.sh: $(cat "$tmp/err")"
grep -qE '^fake +prompt +depth=0 +[0-9.]+ +0\.50 +[0-9.]+ +[0-9.]+ \.\. [0-9.]+$' "$tmp/out" || fail "compare.sh: $(cat "$tmp/out")"
grep -qE '^fake +decode +depth=0 .* 0\.000 ' "$tmp/out" || fail "compare.sh: $(cat "$tmp/out")"
[ "$(grep -c ',fake,' "$tmp/c.csv")" -eq 10 ] || fail "compare.sh: want 5 pairs of 2 tests: $(cat "$tmp/c.csv")"
"${compare[@]}" "fake=$tmp/fake-bench" >"$tmp/out" 2>"$tmp/err" && fail "compare.sh: a peer that fails is no failure"
has "$tmp/err" "fake: wrong flags"
"${compare[@]}" -r 4 "fake=$tmp/fake-bench" 2>"$tmp/err" && fail "compare.sh takes 4 pairs"
has "$tmp/err" "at least 5"

# The same with a server, where there is curl.
cat >"$tmp/fake-server" <<'EOF'
#!/usr/bin/perl
use Socket;
my ($port) = "@ARGV" =~ /--port (\d+)/ or die;
my ($s, $c);
socket($s, PF_INET, SOCK_STREAM, 0) && setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1) &&
    bind($s, sockaddr_in($port, INADDR_LOOPBACK)) && listen($s, 5) or die "fake: $!";
while (accept($c, $s)) {
    my ($len, $body) = (0, '');
    while (defined(my $line = <$c>)) { $len = $1 if $line =~ /^content-length: *(\d+)/i; last if $line =~ /^\r?\n/ }
    read($c, $body, $len) if $len;
    my $out = !$len || $body =~ /"prompt": "a \\"b\\"\\n", "n_predict": 6,/ ? '{"timings": {"predicted_per_second": 2.5}}' : '{}';
    syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: " . length($out) . "\r\nConnection: close\r\n\r\n$out";
    close $c;
}
EOF
chmod +x "$tmp/fake-server"
if command -v curl >/dev/null; then
    printf 'a "b"\n' >"$tmp/prompt"
    "${compare[@]}" -D -T "0 0.7" -f "$tmp/prompt" "fake=$tmp/fake-server" >"$tmp/out" 2>"$tmp/err" ||
        fail "compare.sh -D: $(cat "$tmp/err")"
    [ "$(grep -cE '^fake +drafting +temp=(0|0\.7) +[0-9.]+ +2\.50 ' "$tmp/out")" -eq 2 ] || fail "compare.sh -D: $(cat "$tmp/out")"
fi

help_lists bench --model -t, --checkpoint-mem --shape --type --layers --ngram-rows --write-synthetic --depths --prompt --decode --temps \
    --rules --draft-max --draft-adaptive --sessions --file --repeat --seed --kernels --csv --svg --json
finish
