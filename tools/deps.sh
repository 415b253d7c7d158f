#!/bin/bash
# deps.sh [build|check|long] - install the Debian packages of tools/packages.txt that are missing:
# those for building, those for checking too (the default), or those for the long checks as well. As root it installs them; otherwise
# it prints the line to run and fails. With nothing missing it does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

group=${1:-check}
case $group in
build) want='^build$' ;;
check) want='^(build|check)$' ;;
long) want='^(build|check|long)$' ;;
*)
    echo "deps: unknown group '$group', want build, check or long" >&2
    exit 2
    ;;
esac
packages=$(awk -v want="$want" '!/^#/ && $2 ~ want { print $1 }' tools/packages.txt)

if ! command -v dpkg-query >/dev/null; then
    echo "deps: no Debian system: install by hand what stands for" $packages >&2
    exit 0
fi

# Every installed package, and what it provides ("npm (= 10.8.2), node-x").
have=$(dpkg-query -W -f '${db:Status-Status}, ${Package}, ${Provides}\n' |
    awk -F ', *' '$1 == "installed" { for (i = 2; i <= NF; i++) { sub(/ .*/, "", $i); print $i } }')
missing=$(comm -23 <(sort <<<"$packages") <(sort -u <<<"$have") | tr '\n' ' ')
[ -n "${missing// /}" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "deps: packages are missing; run" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $missing" >&2
    exit 1
fi
echo "deps: installing $missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update -q && apt-get install -y -q --no-install-recommends $missing; } \
    </dev/null >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "deps: apt-get failed, see above" >&2
    exit 1
fi
