#!/usr/bin/env bash
# Checks every change: config.yml names this script as `verify`.
set -u
failed=0
expect() { # expected, command...
  local expected=$1 got
  shift
  got=$("$@" 2>&1)
  if [ "$got" = "$expected" ]; then
    echo "ok: $*"
  else
    echo "FAILED: $*: expected '$expected', got '$got'"
    failed=1
  fi
}
expect 'LOUD' bash -c 'source src/lib.sh && shout loud'
if [ -f src/greet.sh ]; then expect 'Hello, you!' bash src/greet.sh you; fi
if [ -f src/add.sh ]; then expect 5 bash src/add.sh 2 3; fi
if [ -f src/shout.sh ]; then expect 'HELP' bash src/shout.sh help; fi
exit $failed
