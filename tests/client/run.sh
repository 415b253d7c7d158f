#!/bin/bash
# run.sh FILE... - the tests of clients in these files, by node's own runner. Packages come from the npm
# registry, pinned by package-lock.json, into build/client; where the registry cannot be reached the tests
# are skipped, or fail with CLIENT_OFFLINE=fail, as in tools/check-long.sh.
set -euo pipefail

packages=build/client
lock=tests/client/package-lock.json
for program in node npm; do
    command -v $program >/dev/null || { echo "$program is missing: run tools/deps.sh" && exit 1; }
done
if grep '"resolved"' "$lock" | grep -v '"https://registry.npmjs.org/'; then
    echo "$lock names another registry than the public one"
    exit 1
fi
if ! cmp -s "$lock" $packages/installed.json; then
    mkdir -p $packages
    cp "$lock" tests/client/package.json $packages/
    if ! (cd $packages && npm ci --ignore-scripts --no-audit --no-fund); then
        [ "${CLIENT_OFFLINE:-skip}" != fail ] || exit 1
        echo "[  SKIPPED ] 1 test: no packages from the npm registry"
        exit 0
    fi
    cp "$lock" $packages/installed.json
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
rc=0
CLIENT_PACKAGES=$packages node --test --test-reporter=spec "$@" >"$log" 2>&1 || rc=$?
cat "$log"
awk '$2 == "pass" { p = $3 } $2 == "fail" { f = $3 } END { print p + 0 " passed, " f + 0 " failed" }' "$log"
exit $rc
