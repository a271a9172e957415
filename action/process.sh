#!/usr/bin/env bash
# Processes the specs. decree replaces this shell (exec), so that the signal of a cancelled job reaches it.
# In: DECREE, SPECS, LIMIT, MAX_RETRIES, TIMEOUT, ROUTINE, ARGS. Out: the outputs of `decree process`.
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
# Do not pass these on to routines.
unset DECREE SPECS LIMIT MAX_RETRIES TIMEOUT ROUTINE ARGS
exec "$decree" process "${arguments[@]}" "${more[@]}"
