#!/bin/bash
# api.sh - the server as the official client of the API sees it, and what the page knows of tokens.
exec bash tests/client/run.sh tests/client/tokens.test.mjs tests/client/api.test.mjs
