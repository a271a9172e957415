#!/usr/bin/env bash
# The last step: everything is reported, and the job fails if it has to.
# In: FAIL_ON, VERDICT, FAILED, UNCHANGED, and the outcome of each step. Out: verdict.
set -euo pipefail

verdict=${VERDICT:-error}
printf 'verdict=%s\n' "$verdict" >>"$GITHUB_OUTPUT"
status=0
fail() {
  echo "::error title=decree::$1"
  status=1
}

# decree writes its verdict even if specs fail; without one, decree itself failed.
[[ $INSTALL == success ]] || fail "cannot install decree"
[[ $INSTALL != success || $verdict != error ]] || fail "decree failed before it could process the specs; see the log of that step"
[[ $STAGE != failure ]] || fail "cannot stage the reports and run directories"
[[ $UPLOAD != failure ]] || fail "cannot upload the artifact"
[[ $COMMENT != failure ]] || fail "cannot write the comment"
[[ $PUBLISH != failure ]] || fail "cannot publish the changes"

case ${FAIL_ON:-failed} in
  never) ;;
  failed | no-change)
    case $verdict in
      # Each failed spec has its own annotation.
      failed) echo "${FAILED:-?} failed"; status=1 ;;
      interrupted) fail "interrupted; the interrupted spec is reverted" ;;
    esac
    if [[ $FAIL_ON == no-change && $verdict == nothing ]]; then
      fail "there was nothing to do"
    elif [[ $FAIL_ON == no-change && ${UNCHANGED:-0} != 0 ]]; then
      fail "$UNCHANGED of the specs changed nothing"
    fi
    ;;
  *) fail "'fail-on' has to be failed, no-change or never" ;;
esac
exit "$status"
