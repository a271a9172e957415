#!/usr/bin/env bash
# Develop: replaces an AI coding tool, so that the demo needs no network. It makes typical mistakes of such tools.
set -euo pipefail

spec_file="${spec_file:-}"
message_dir="${message_dir:-}"

log() { echo "agent: $*"; }

case "${spec_file:-follow-up}" in
  specs/01-*)
    log "writing src/greet.sh"
    printf '#!/usr/bin/env bash\necho "Hello, ${1:-world}!"\n' >src/greet.sh
    chmod +x src/greet.sh
    log "the README should mention it; adding a follow-up message"
    printf 'Mention src/greet.sh in the README.\n' >".decree/inbox/${chain}-1.md"
    ;;
  specs/02-*)
    if [ "$DECREE_ATTEMPT" = 1 ]; then
      log "adding the numbers as strings"
      printf '#!/usr/bin/env bash\necho "$1+$2"\n' >src/add.sh
    else
      log "the last attempt's log says: $(grep 'expected' "$message_dir/attempts/1/routine.log" | tail -n 1)"
      log "using arithmetic instead"
      printf '#!/usr/bin/env bash\necho $(($1 + $2))\n' >src/add.sh
    fi
    ;;
  specs/03-*)
    if [ -f "$message_dir/failure-context.md" ]; then
      log "clean slate; $(grep -c '^## Attempt' "$message_dir/failure-context.md") failed attempts show that src/lib.sh must not change"
      printf '#!/usr/bin/env bash\nsource "$(dirname "$0")/lib.sh"\nshout "$*"\n' >src/shout.sh
    else
      log "rewriting src/lib.sh"
      echo "shout() { echo \"attempt $DECREE_ATTEMPT\"; }" >src/lib.sh
      printf '#!/usr/bin/env bash\nsource "$(dirname "$0")/lib.sh"\nshout "$*"\n' >src/shout.sh
    fi
    ;;
  specs/04-*)
    log "deleting src/ and README.md"
    rm -rf src README.md
    mkdir -p build && head -c 3000 /dev/zero >build/cache.bin
    log "I am sure that P = NP, but the margin is too small"
    exit 1
    ;;
  follow-up)
    log "adding one line to the README"
    printf '\n`src/greet.sh NAME` greets NAME.\n' >>README.md
    ;;
esac
