#!/usr/bin/env bash
# Develop decree itself: an AI coding tool carries out a spec; the config's verify checks everything that CI checks.
# needs: ai, cargo
set -euo pipefail

spec_file="${spec_file:-}"
message_file="${message_file:-}"
message_dir="${message_dir:-}"

read -ra ai <<<"${DECREE_AI:-}"

prompt="Work on this repository so that it fulfils ${spec_file:-what the message below asks for}.
Read docs/architecture.md first and keep it true. Every criterion in a spec has an id; a test in tests/suite must name it.
Keep CHANGELOG.md. Do not edit specs/ or .decree/. When you are done, \`.ci/run\` has to pass.

$(cat "$message_file")"

last="$message_dir/attempts/$((DECREE_ATTEMPT - 1))/log-tail.txt"
if [ -s "$message_dir/failure-context.md" ]; then
  prompt+="

Earlier attempts failed and were reverted; this is what is known about them:
$(cat "$message_dir/failure-context.md")"
elif [ -s "$last" ]; then
  prompt+="

An earlier attempt failed; its changes are still in the tree. The end of its log:
$(cat "$last")"
fi

printf '%s\n' "$prompt" >"$message_dir/prompt.md"
"${ai[@]}" <"$message_dir/prompt.md"
