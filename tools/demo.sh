#!/bin/bash
# demo.sh COMMAND - a paragraph written by the bundled model, with the statistics behind it.
set -euo pipefail
cd "$(dirname "$0")/.."

command=${1:-build/release/foretoken}
model=models/foretoken-sample.gguf
prompt='The old lighthouse keeper climbed the stairs'

if [ ! -f "$model" ]; then
    echo "demo: $model is missing; it is part of the repository: restore it with" >&2
    echo "  git checkout -- $model" >&2
    exit 1
fi
echo "\$ $command run -m $model -p \"$prompt\" -n 150 --echo --seed 1 --draft-vocab models/foretoken-sample.draft-vocab"
exec "$command" run -m "$model" -p "$prompt" -n 150 --echo --seed 1 --draft-vocab models/foretoken-sample.draft-vocab
