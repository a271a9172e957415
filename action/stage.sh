#!/usr/bin/env bash
# Exports the files to upload to a new directory.
# In: DECREE, NAME, JOB_INDEX. Out: path, name.
set -euo pipefail

# The action can run several times in one job; RUNNER_TEMP is empty at the start of each job.
earlier=$(find "${RUNNER_TEMP:?}/" -maxdepth 1 -name 'decree-artifact-*' | wc -l)
place=$(mktemp -d "$RUNNER_TEMP/decree-artifact-XXXXXX")
"$DECREE" stage "$place"

# An artifact cannot be replaced, so each job of a matrix, each attempt and each use in a job needs a different name.
name=decree-${GITHUB_JOB:-job}-${JOB_INDEX:-0}-${GITHUB_RUN_ATTEMPT:-1}
((earlier == 0)) || name+=-$((earlier + 1))
name=${NAME:-$name}
{
  printf 'path=%s\n' "$place"
  printf 'name=%s\n' "${name//[\":<>|*?\\\/$'\r\n']/-}"
} >>"$GITHUB_OUTPUT"
