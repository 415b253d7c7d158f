#!/bin/bash
# serve.sh - `foretoken serve` with the bundled model, asked by curl: endpoints, streams, errors, keys,
# limits, signals.
. tests/cli/common.bash

sample=models/foretoken-sample.gguf
server=
stop_server() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
    server=
}
trap 'stop_server; rm -rf "$tmp"' EXIT

# start OPTION...: a server on a free port; its address in url, its messages in $tmp/log.
start() {
    stop_server
    : >"$tmp/log" # the address of the last one must not be found
    "$FORETOKEN" serve -m $sample --port 0 "$@" >"$tmp/out" 2>"$tmp/log" &
    server=$!
    for _ in $(seq 200); do
        url=$(sed -nE 's|.* on (http://[^,]*),.*|\1|p' "$tmp/log")
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    fail "the server does not start: $(cat "$tmp/log")" && finish
}

# ask STATUS PATH [JSON] [CURL OPTION...]: the body in $tmp/body, headers in $tmp/head.
ask() {
    local want=$1 path=$2 data=${3:-} got
    shift 2
    [ $# -eq 0 ] || shift
    got=$(curl -sS -m 60 -D "$tmp/head" -o "$tmp/body" -w '%{http_code}' ${data:+-H 'Content-Type: application/json' --data-binary "$data"} \
        "$@" "$url$path") || fail "curl $path: exit status $?"
    [ "$got" = "$want" ] || fail "$path $data: status $got, want $want: $(head -c 300 "$tmp/body")"
}

start
ask 200 /health
has "$tmp/body" '{"status":"ok"}'
ask 200 /v1/models
json "$tmp/body"
[ "$(value "$tmp/body" id)" = foretoken-sample ] || fail "name of the model: $(cat "$tmp/body")"

# The text is what `run` writes for the seed, with and without drafts, whole and streamed.
for temp in 0 0.8; do
    good run -m $sample -p "The old" -n 40 --temp $temp --seed 7 --top-k 0 --top-p 1 --min-p 0 --json -q
    want=$(value "$tmp/out" text)
    for draft in 0 4; do
        ask 200 /v1/completions '{"prompt": "The old", "max_tokens": 40, "seed": 7, "temperature": '$temp', "draft_max": '$draft'}'
        json "$tmp/body"
        [ "$(value "$tmp/body" text)" = "$want" ] || fail "temperature $temp, $draft drafts: another text than run"
        [ "$(value "$tmp/body" completion_tokens)" = 40 ] || fail "usage: $(cat "$tmp/body")"
    done
    ask 200 /v1/completions '{"prompt": "The old", "max_tokens": 40, "seed": 7, "temperature": '$temp', "stream": true}' -N
    got=$(grep -o '"text":"[^"]*"' "$tmp/body" | sed 's/"text":"//; s/"$//' | tr -d '\n')
    [ "$got" = "$want" ] || fail "streamed: '$got', want '$want'"
    has "$tmp/body" 'data: [DONE]'
    has "$tmp/head" 'Content-Type: text/event-stream'
done

# Chat: the bundled model has the tokens of the form, though it never learnt them.
ask 200 /v1/chat/completions '{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 20, "seed": 1, "reasoning_effort": "none"}'
json "$tmp/body"
has "$tmp/body" '"role":"assistant"'
good chat --render <(echo '[{"role": "user", "content": "Hello"}]') -m $sample --json --no-thinking
n=$(numbers "$tmp/out" tokens | wc -w)
[ "$(value "$tmp/body" prompt_tokens)" = "$n" ] || fail "prompt tokens: $(value "$tmp/body" prompt_tokens), want $n"

ask 200 /tokenize '{"content": "The old man"}'
ask 200 /detokenize "$(cat "$tmp/body")"
has "$tmp/body" '{"content":"The old man"}'

ask 200 /metrics
for metric in foretoken_requests_total foretoken_drafted_total foretoken_accepted_total \
    foretoken_seconds_total foretoken_state_bytes foretoken_checkpoint_bytes foretoken_queue_length; do
    grep -q "^$metric[{ ]" "$tmp/body" || fail "/metrics has no $metric"
done

# Errors are objects with the right status.
ask 400 /v1/completions '{"prompt": "x", "temperature": 5}'
[ "$(value "$tmp/body" param)" = temperature ] || fail "param: $(cat "$tmp/body")"
ask 400 /v1/completions '{"prompt": '
ask 404 /v1/completions '{"prompt": "x", "model": "other"}'
[ "$(value "$tmp/body" code)" = model_not_found ] || fail "code: $(cat "$tmp/body")"
ask 404 /v1/nothing
ask 405 /v1/completions
has "$tmp/head" 'Allow: POST'
ask 415 /v1/completions '' --data 'prompt=x'
ask 403 /health '' -H 'Host: evil.example'
ask 403 /v1/completions '{"prompt": "x"}' -H 'Origin: http://evil.example'
head -c 33600000 /dev/zero | tr '\0' ' ' >"$tmp/large"
ask 413 /v1/completions '{}' --data-binary "@$tmp/large"

# The access log has what was asked for and no text.
has "$tmp/log" '"path":"/v1/chat/completions","status":200'
grep -q 'The old' "$tmp/log" && fail "the log has prompts"
grep -v '^foretoken serve: ' "$tmp/log" | while read -r line; do
    echo "$line" >"$tmp/line" && json "$tmp/line"
done

# SIGTERM: the answer that runs is finished, then the server ends with status 0.
curl -sN -m 60 -H 'Content-Type: application/json' -o "$tmp/body" "$url/v1/completions" \
    -d '{"prompt": "The old", "max_tokens": 300, "ignore_eos": true, "stream": true}' &
client=$!
sleep 0.2
kill -TERM "$server"
rc=0
wait "$server" || rc=$?
[ $rc -eq 0 ] || fail "SIGTERM: exit status $rc: $(tail -3 "$tmp/log")"
wait $client || fail "the client of the last answer: exit status $?"
has "$tmp/body" '"finish_reason":"length"'
has "$tmp/body" 'data: [DONE]'
server=

# Options: key, names, limits.
echo secret >"$tmp/key"
start --api-key-file "$tmp/key" --alias other/name --max-tokens 5 --parallel 1 --no-log --ctx-per-request 64
ask 401 /v1/models
ask 200 /v1/models '' -H 'Authorization: Bearer secret'
has "$tmp/body" '"id":"other/name"'
ask 200 /health
ask 400 /v1/completions '{"prompt": "x", "max_tokens": 6}' -H 'Authorization: Bearer secret'
ask 400 /v1/completions "{\"prompt\": \"$(printf 'word %.0s' $(seq 100))\"}" -H 'Authorization: Bearer secret'
[ "$(value "$tmp/body" code)" = context_length_exceeded ] || fail "code: $(cat "$tmp/body")"
kill -INT "$server" 2>/dev/null # ignored by what a shell starts in the background, or the end
[ "$(grep -vc '^foretoken serve: ' "$tmp/log")" = 0 ] || fail "--no-log: $(cat "$tmp/log")"
stop_server

bad 2 "no model" serve
bad 2 "needs an API key" serve -m $sample --host 0.0.0.0 --port 0
bad 2 "--port" serve -m $sample --port 70000
bad 2 "exclude each other" serve -m $sample --api-key a --api-key-file "$tmp/key"
bad 1 "absent" serve -m $sample --api-key-file "$tmp/absent"
bad 1 "absent.gguf" serve -m absent.gguf
help_lists serve --host --port --api-key --api-key-file --alias --parallel --ctx-per-request --max-tokens \
    --max-queue --max-connections --max-body --read-timeout --write-timeout --time-limit --keepalive \
    --stop-timeout --no-log --draft-max --no-draft --temp --top-k --top-p --min-p
finish
