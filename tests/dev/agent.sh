#!/bin/bash
# agent.sh FOLDER - one round trip of a coding agent (npm: @qwen-code/qwen-code) with `foretoken serve`: its
# request with tools is streamed to an end, and its next one finds its beginning known. The agent must be
# in FOLDER/node_modules (tests/dev/README.md); what it writes stays in FOLDER.
. tests/cli/common.bash

folder=$(cd "$1" && pwd)
agent=$folder/node_modules/.bin/qwen
[ -x "$agent" ] || { echo "$agent is missing: see tests/dev/README.md" && exit 1; }
"$FORETOKEN" serve -m models/foretoken-sample.gguf --port 0 --ctx-per-request 65536 2>"$tmp/log" &
server=$!
trap 'kill $server; wait $server; rm -rf "$tmp"' EXIT
for _ in $(seq 100); do
    url=$(sed -nE 's|.* on (http://[^,]*),.*|\1|p' "$tmp/log")
    [ -z "$url" ] || break
    sleep 0.05
done

mkdir -p "$folder/home" "$folder/work"
rc=0
(cd "$folder/work" && HOME=$folder/home OPENAI_BASE_URL=$url/v1 OPENAI_API_KEY=any OPENAI_MODEL=foretoken-sample \
    QWEN_CODE_MAX_OUTPUT_TOKENS=64 timeout 300 "$agent" --auth-type openai --output-format json \
    -p "Say hello." </dev/null >"$tmp/said" 2>&1) || rc=$?
[ $rc -eq 0 ] || fail "the agent: exit status $rc"
grep -qE 'API Error|"is_error":true' "$tmp/said" && fail "the agent reports an error"
grep '"path":"/v1/chat/completions"' "$tmp/log" >"$tmp/requests" || fail "the agent asked nothing"
grep -v '"status":200,.*"finish":"' "$tmp/requests" && fail "requests that did not end"
[ "$(value "$tmp/requests" prompt_tokens)" -gt 5000 ] || fail "a request without tools: $(head -n 1 "$tmp/requests")"
tail -n 1 "$tmp/requests" >"$tmp/last"
[ "$(wc -l <"$tmp/requests")" -eq 1 ] || [ "$(value "$tmp/last" cached_tokens)" -gt 5000 ] || fail "nothing was known: $(cat "$tmp/last")"
cat "$tmp/requests"
head -c 2000 "$tmp/said"
echo
finish
