#!/bin/bash
# sessions-flat.sh - memory over ten thousand short sessions (sessions_flat.c), in under a minute.
set -euo pipefail

program=${FT_BUILD:-build/release}/tests/long/sessions_flat
[ -x "$program" ] || { echo "$program is missing: run make tests" && exit 1; }
start=$SECONDS
"$program"
echo "took $((SECONDS - start)) s"
