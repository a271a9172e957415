#!/usr/bin/env bash
# Puts what is to be uploaded into a directory of its own.
# In: DECREE, NAME, JOB_INDEX. Out: path, name.
set -euo pipefail

# The action may be used more than once in a job; the runner begins every job with an empty directory.
earlier=$(find "${RUNNER_TEMP:?}/" -maxdepth 1 -name 'decree-artifact-*' | wc -l)
place=$(mktemp -d "$RUNNER_TEMP/decree-artifact-XXXXXX")
"$DECREE" stage "$place"

# Artifacts are never replaced: every job of a matrix, every attempt and every use in a job needs a name of its own.
name=decree-${GITHUB_JOB:-job}-${JOB_INDEX:-0}-${GITHUB_RUN_ATTEMPT:-1}
((earlier == 0)) || name+=-$((earlier + 1))
name=${NAME:-$name}
{
  printf 'path=%s\n' "$place"
  printf 'name=%s\n' "${name//[\":<>|*?\\\/$'\r\n']/-}"
} >>"$GITHUB_OUTPUT"
