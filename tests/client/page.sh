#!/bin/bash
# page.sh - the server's page in a browser without a window.
command -v "${CHROMIUM:-chromium}" >/dev/null || { echo "chromium is missing: run tools/deps.sh long" && exit 1; }
exec bash tests/client/run.sh tests/client/page.test.mjs
