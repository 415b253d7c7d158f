#!/bin/bash
# walk.sh - 20,000 random operations on conversations: every state against one that is computed anew.
set -euo pipefail
exec "$FT_BUILD/tests/unit/test_engine_walk" 20000
