#!/usr/bin/env bash
# Comments on the pull request.
# In: DECREE, DECREE_GITHUB_TOKEN, KEY, MODE, ARTIFACT_NAME, ARTIFACT_URL. Out: url.
set -euo pipefail

arguments=("--mode=${MODE:-update}")
[[ -z $KEY ]] || arguments+=("--key=$KEY")
if [[ -n ${ARTIFACT_URL:-} ]]; then
  arguments+=("--artifact-url=$ARTIFACT_URL" "--artifact-name=$ARTIFACT_NAME")
fi
exec "$DECREE" comment "${arguments[@]}"
