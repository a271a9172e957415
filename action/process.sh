#!/usr/bin/env bash
# Carries the specs out. decree takes this process's place, so that a cancelled job's signal reaches it.
# In: DECREE, SPECS, LIMIT, MAX_RETRIES, TIMEOUT, ROUTINE, ARGS. Out: what `decree process` sets.
set -euo pipefail

arguments=()
while IFS= read -r spec; do
  spec="${spec#"${spec%%[![:space:]]*}"}"
  spec="${spec%"${spec##*[![:space:]]}"}"
  [[ -z $spec ]] || arguments+=("--spec=$spec")
done <<<"$SPECS"
[[ -z $LIMIT ]] || arguments+=("--limit=$LIMIT")
[[ -z $MAX_RETRIES ]] || arguments+=("--max-retries=$MAX_RETRIES")
[[ -z $TIMEOUT ]] || arguments+=("--timeout=$TIMEOUT")
[[ -z $ROUTINE ]] || arguments+=("--routine=$ROUTINE")
read -r -a more <<<"${ARGS//$'\n'/ }"

decree=${DECREE:?}
# Routines need none of these.
unset DECREE SPECS LIMIT MAX_RETRIES TIMEOUT ROUTINE ARGS
exec "$decree" process "${arguments[@]}" "${more[@]}"
