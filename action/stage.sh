#!/usr/bin/env bash
# Puts what is to be uploaded into a directory of its own.
# In: DECREE, NAME, JOB_INDEX. Out: path, name, report-path, junit-path.
set -euo pipefail

place=$(mktemp -d "${RUNNER_TEMP:?}/decree-artifact-XXXXXX")
"$DECREE" stage "$place"

# Artifacts are never replaced: every job of a matrix and every attempt needs a name of its own.
name=${NAME:-decree-${GITHUB_JOB:-job}-${JOB_INDEX:-0}-${GITHUB_RUN_ATTEMPT:-1}}
{
  printf 'path=%s\n' "$place"
  printf 'name=%s\n' "${name//[\":<>|*?\\\/$'\r\n']/-}"
} >>"$GITHUB_OUTPUT"
