#!/usr/bin/env bash
# Retry: fails once, and succeeds on a clean slate.
set -euo pipefail
[ ! -e tried.txt ] || echo 'the slate is not clean' >>notes.txt
echo "attempt $DECREE_ATTEMPT of $DECREE_MAX_ATTEMPTS" >tried.txt
[ "$DECREE_ATTEMPT" -gt 1 ]
