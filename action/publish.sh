#!/usr/bin/env bash
# Commits what was kept, and hands it on as far as it is asked to.
# In: DECREE, DECREE_GITHUB_TOKEN, PUBLISH, BRANCH. Out: commit, pull-request-url.
set -euo pipefail

arguments=()
case $PUBLISH in
  commit) ;;
  push) arguments+=(--push) ;;
  pull-request) arguments+=(--pull-request) ;;
  *)
    echo "::error title=decree::'publish' is one of none, commit, push, pull-request"
    exit 2
    ;;
esac
[[ -z $BRANCH ]] || arguments+=("--branch=$BRANCH")
exec "$DECREE" publish "${arguments[@]}"
