#!/usr/bin/env bash
# Develop: stands in for an AI coding tool, so that the demo needs no network. It makes the mistakes that such tools make.
set -euo pipefail

spec_file="${spec_file:-}"
message_dir="${message_dir:-}"

say() { echo "agent: $*"; }

case "${spec_file:-follow-up}" in
  specs/01-*)
    say "writing src/greet.sh"
    printf '#!/usr/bin/env bash\necho "Hello, ${1:-world}!"\n' >src/greet.sh
    chmod +x src/greet.sh
    say "the README should mention it; asking for that as a follow-up"
    printf 'Mention src/greet.sh in the README.\n' >".decree/inbox/${chain}-1.md"
    ;;
  specs/02-*)
    if [ "$DECREE_ATTEMPT" = 1 ]; then
      say "adding up with a string, as one does"
      printf '#!/usr/bin/env bash\necho "$1+$2"\n' >src/add.sh
    else
      say "the last attempt's log says: $(grep 'expected' "$message_dir/attempts/1/routine.log" | tail -n 1)"
      say "then it has to be arithmetic"
      printf '#!/usr/bin/env bash\necho $(($1 + $2))\n' >src/add.sh
    fi
    ;;
  specs/03-*)
    if [ -f "$message_dir/failure-context.md" ]; then
      say "a clean slate; $(grep -c '^## Attempt' "$message_dir/failure-context.md") attempts taught me not to touch src/lib.sh"
      printf '#!/usr/bin/env bash\nsource "$(dirname "$0")/lib.sh"\nshout "$*"\n' >src/shout.sh
    else
      say "rewriting src/lib.sh, and then the rewrite"
      echo "shout() { echo \"attempt $DECREE_ATTEMPT\"; }" >src/lib.sh
      printf '#!/usr/bin/env bash\nsource "$(dirname "$0")/lib.sh"\nshout "$*"\n' >src/shout.sh
    fi
    ;;
  specs/04-*)
    say "deleting what is in the way"
    rm -rf src README.md
    mkdir -p build && head -c 3000 /dev/zero >build/cache.bin
    say "I am sure that P = NP, but the margin is too small"
    exit 1
    ;;
  follow-up)
    say "one line for the README"
    printf '\n`src/greet.sh NAME` greets NAME.\n' >>README.md
    ;;
esac
