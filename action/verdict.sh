#!/usr/bin/env bash
# The last step: everything has been told, and now the job fails if it has to.
# In: FAIL_ON, VERDICT, FAILED, UNCHANGED, and how each step ended. Out: verdict.
set -euo pipefail

verdict=${VERDICT:-error}
printf 'verdict=%s\n' "$verdict" >>"$GITHUB_OUTPUT"
status=0
fail() {
  echo "::error title=decree::$1"
  status=1
}

# decree writes its verdict even if specs fail; if there is none, it could not work at all.
[[ $INSTALL == success ]] || fail "decree could not be installed"
[[ $INSTALL != success || $verdict != error ]] || fail "decree could not process the specs; the log of that step says why"
[[ $STAGE != failure ]] || fail "reports and run directories could not be staged"
[[ $UPLOAD != failure ]] || fail "the artifact could not be uploaded"
[[ $COMMENT != failure ]] || fail "the comment could not be written"
[[ $PUBLISH != failure ]] || fail "the changes could not be published"

case ${FAIL_ON:-failed} in
  never) ;;
  failed | no-change)
    case $verdict in
      # Each of them has an annotation of its own.
      failed) echo "${FAILED:-?} failed"; status=1 ;;
      interrupted) fail "interrupted; the tree is as it was before the interrupted spec" ;;
    esac
    if [[ $FAIL_ON == no-change && $verdict == nothing ]]; then
      fail "there was nothing to do"
    elif [[ $FAIL_ON == no-change && ${UNCHANGED:-0} != 0 ]]; then
      fail "$UNCHANGED changed nothing"
    fi
    ;;
  *) fail "'fail-on' is one of failed, no-change, never" ;;
esac
exit "$status"
