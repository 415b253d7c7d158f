#!/bin/bash
# server-clients.sh - eight clients that come and go for a minute: every finished answer is that of its solo
# run, memory stays flat. By hand for longer: test_server_load SECONDS.
set -euo pipefail
exec "$FT_BUILD/tests/unit/test_server_load" 30
