#!/usr/bin/env bash
# Commits the kept runs, and pushes them or opens a pull request if asked to.
# In: DECREE, DECREE_GITHUB_TOKEN, PUBLISH, BRANCH. Out: commit, pull-request-url.
set -euo pipefail

arguments=()
case $PUBLISH in
  commit) ;;
  push) arguments+=(--push) ;;
  pull-request) arguments+=(--pull-request) ;;
  *)
    echo "::error title=decree::'publish' has to be none, commit, push or pull-request"
    exit 2
    ;;
esac
[[ -z $BRANCH ]] || arguments+=("--branch=$BRANCH")
exec "$DECREE" publish "${arguments[@]}"
