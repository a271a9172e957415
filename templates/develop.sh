#!/usr/bin/env bash
# Develop: implement, change or fix something in this project as a spec or a message describes it, then check that it works.
# needs: ai
set -euo pipefail

spec_file="${spec_file:-}"
message_file="${message_file:-}"
message_dir="${message_dir:-}"
check="${check:-}"

read -ra ai <<<"${DECREE_AI:-}"
if [ ${#ai[@]} -eq 0 ] || ! command -v "${ai[0]}" >/dev/null; then
  echo "develop: the AI command '${ai[0]:-}' is not installed; see commands.ai in .decree/config.yml and \`decree doctor\`" >&2
  exit 127
fi

prompt="You are working unattended in this repository. Read the task, then change the files to complete it.
Follow the style of the surrounding code, add or adapt tests, and do not edit anything in specs/ or .decree/."
if [ -n "$spec_file" ]; then
  prompt+="

The task is in ${spec_file}. Fulfil every criterion in it."
fi
if [ -s "$message_file" ]; then
  prompt+="

The message with the task:
$(cat "$message_file")"
fi

# Colours, titles and links of a terminal say nothing to a model.
plain() { LC_ALL=C sed -e $'s/\e\\[[0-9;:?]*[ -\\/]*[@-~]//g' -e $'s/\e\\][^\a\e]*\a//g' -e $'s/\e\\][^\a\e]*\e\\\\//g' | tr -d '\000-\010\013-\037'; }

# On a clean slate, pass on the context of all failed attempts; otherwise the end of the last attempt's log.
last="$message_dir/attempts/$((${DECREE_ATTEMPT:-1} - 1))/routine.log"
if [ -s "$message_dir/failure-context.md" ]; then
  prompt+="

Earlier attempts failed and were reverted. This is what is known about them:
$(cat "$message_dir/failure-context.md")"
elif [ -s "$last" ]; then
  prompt+="

An earlier attempt failed; its changes are still in the tree. The end of its log:
$(tail -n 60 "$last" | plain)"
fi

"${ai[@]}" "$prompt"

if [ -n "$check" ]; then
  bash -c "$check"
fi
