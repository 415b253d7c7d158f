#!/bin/bash
# haproxy.sh - contrib/haproxy.cfg before two servers: a conversation stays with its server, conversations
# are spread, a server that is killed or told to end is left out, and comes back.
. tests/cli/common.bash

command -v haproxy >/dev/null || { echo "haproxy is missing: run tools/deps.sh long" && exit 1; }
sample=models/foretoken-sample.gguf
declare -A pid port
proxy=
end_all() {
    kill $proxy "${pid[@]}" 2>/dev/null
    wait $proxy "${pid[@]}" 2>/dev/null
    rm -rf "$tmp"
}
trap end_all EXIT

# start NAME: that server, on the port it had before, if any.
start() {
    : >"$tmp/log-$1"
    "$FORETOKEN" serve -m $sample --port "${port[$1]:-0}" --api-key k3y 2>"$tmp/log-$1" &
    pid[$1]=$!
    for _ in $(seq 200); do
        port[$1]=$(sed -nE 's|.* on http://[^,]*:([0-9]+),.*|\1|p' "$tmp/log-$1")
        [ -z "${port[$1]}" ] || return 0
        sleep 0.05
    done
    fail "server $1 does not start: $(cat "$tmp/log-$1")" && finish
}

# The proxy on a port that is free.
start_proxy() {
    for _ in $(seq 20); do
        listen=$((20000 + RANDOM % 20000))
        sed -E "s/:8080\$/:$listen/; s/:8081\$/:${port[one]}/; s/:8082\$/:${port[two]}/" contrib/haproxy.cfg >"$tmp/haproxy.cfg"
        haproxy -db -q -f "$tmp/haproxy.cfg" >"$tmp/proxy" 2>&1 &
        proxy=$!
        for _ in $(seq 40); do
            kill -0 $proxy 2>/dev/null || break
            curl -s -o /dev/null "http://127.0.0.1:$listen/health" && return 0
            sleep 0.05
        done
    done
    fail "haproxy does not start: $(cat "$tmp/proxy")" && finish
}

# ask STATUS PATH JSON: the server that answered in by, the body in $tmp/body.
ask() {
    local got
    got=$(curl -sS -m 60 -D "$tmp/head" -o "$tmp/body" -w '%{http_code}' -H 'Authorization: Bearer k3y' \
        -H 'Content-Type: application/json' --data-binary "$3" "http://127.0.0.1:$listen$2")
    by=$(sed -nE 's/^x-served-by: ([a-z]+).*/\1/p' "$tmp/head")
    [ "$got" = "$1" ] || fail "$2: status $got, want $1, by '$by': $(head -c 300 "$tmp/body")"
}

# turn N [ROLE]: the first turn of conversation N, below a system message if ROLE is given.
turn() {
    [ -z "${2:-}" ] || printf '{"role": "%s", "content": "You are a keeper of lighthouses."}, ' "$2"
    printf '{"role": "user", "content": "Question %s: tell me of the sea."}' "$1"
}
chat() {
    ask 200 /v1/chat/completions "{\"max_tokens\": 4, \"reasoning_effort\": \"none\", ${2:-}\"messages\": [$1]}"
}
next='{"role": "assistant", "content": "It is wide."}, {"role": "user", "content": "And deep?"}'

# returns: wait until requests reach server one again.
returns() {
    for _ in $(seq 100); do
        ask 200 /tokenize '{"content": "x"}'
        [ "$by" = one ] && return
        sleep 0.1
    done
    fail "server one is not asked again"
}

# spread WHAT: both servers are in the list of who answered, "$all".
spread() {
    case $all in *one*two* | *two*one*) ;; *) fail "$1: all by the same server:$all" ;; esac
}

haproxy -c -q -f contrib/haproxy.cfg || fail "contrib/haproxy.cfg is refused"
start one
start two
start_proxy

# Each conversation stays with its server, which knows its beginning; with and without a system message.
declare -A home
for role in '' system; do
    all=
    for n in $(seq 8); do
        chat "$(turn "$n" $role)"
        first=$by
        home[$role$n]=$by
        all+=" $by"
        chat "$(turn "$n" $role), $next"
        [ "$by" = "$first" ] || fail "conversation $n ($role): first by $first, then by $by"
        [ "$(value "$tmp/body" cached_tokens)" -gt 0 ] || fail "conversation $n ($role): nothing was known of it"
    done
    spread "conversations ($role)"
done

# Who cares says so.
all=
for n in $(seq 8); do
    chat "$(turn 1)" "\"prompt_cache_key\": \"key $n\", "
    first=$by all+=" $by"
    chat "$(turn 2)" "\"prompt_cache_key\": \"key $n\", "
    [ "$by" = "$first" ] || fail "prompt_cache_key $n: first by $first, then by $by"
done
spread "prompt_cache_key"

# Content in parts.
all=
for n in $(seq 8); do
    chat "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Part $n\"}]}"
    first=$by all+=" $by"
    chat "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Part $n\"}]}, $next"
    [ "$by" = "$first" ] || fail "content in parts, $n: first by $first, then by $by"
done
spread "content in parts"

# A coding agent's beginning is long, and in the end the body is longer than the proxy looks at. (Here they
# do not fit the model's context: refused, and by whom is what counts.)
long=$(head -c 100000 /dev/zero | tr '\0' 'a')
all=
for n in $(seq 8); do
    begin="{\"messages\": [{\"role\": \"system\", \"content\": \"$long\"}, $(turn "$n")"
    echo "$begin]}" >"$tmp/begin"
    echo "$begin, $next, {\"role\": \"assistant\", \"content\": \"$long$long\"}, $(turn 0)]}" >"$tmp/end"
    ask 400 /v1/chat/completions "@$tmp/begin"
    first=$by all+=" $by"
    ask 400 /v1/chat/completions "@$tmp/end"
    [ "$by" = "$first" ] || fail "long conversation $n: first by $first, then by $by"
done
spread "long conversations"

# Completions by the beginning of their prompt; requests without a key reach both.
ask 200 /v1/completions '{"max_tokens": 2, "prompt": "The old lighthouse keeper lifted his lantern high above the stones and"}'
first=$by
ask 200 /v1/completions '{"max_tokens": 2, "prompt": "The old lighthouse keeper lifted his lantern high above the stones and said that"}'
[ "$by" = "$first" ] || fail "completions: first by $first, then by $by"
all=
for _ in 1 2 3 4; do
    ask 200 /tokenize '{"content": "x"}'
    all+=" $by"
done
spread "requests without a key"

# Killed: all go to the other at once, and those of the other stay. Back: it gets its own again.
kill -9 "${pid[one]}"
wait "${pid[one]}" 2>/dev/null
for n in $(seq 8); do
    chat "$(turn "$n"), $next"
    [ "$by" = two ] || fail "conversation $n after the kill: by '$by'"
done
start one
returns

# One that hangs takes connections and never answers: only the health check can tell.
kill -STOP "${pid[one]}"
sleep 6 # two checks, each after a second, that wait for one
for n in $(seq 8); do
    chat "$(turn "$n")"
    [ "$by" = two ] || fail "conversation $n while one hangs: by '$by'"
done
kill -CONT "${pid[one]}"
returns
for n in $(seq 8); do
    chat "$(turn "$n")"
    [ "$by" = "${home[$n]}" ] || fail "conversation $n after the return: by $by, want ${home[$n]}"
done

# Told to end: what it writes is finished through the proxy, new requests go to the other.
n=1
while [ "${home[$n]}" != one ]; do n=$((n + 1)); done
curl -sN -m 60 -o "$tmp/stream" -H 'Authorization: Bearer k3y' -H 'Content-Type: application/json' \
    "http://127.0.0.1:$listen/v1/chat/completions" \
    -d "{\"max_tokens\": 1500, \"ignore_eos\": true, \"stream\": true, \"messages\": [$(turn $n)]}" &
client=$!
for _ in $(seq 100); do
    grep -q '"content":"[^"]' "$tmp/stream" 2>/dev/null && break
    sleep 0.02
done
kill -TERM "${pid[one]}"
for i in $(seq 4); do
    chat "$(turn $n), $next"
    [ "$by" = two ] || fail "request $i while one ends: by '$by'"
done
wait $client || fail "the stream of a server that ends: exit status $?"
has "$tmp/stream" '"finish_reason":"length"'
has "$tmp/stream" 'data: [DONE]'
wait "${pid[one]}" || fail "the server that ends: exit status $?"
finish
