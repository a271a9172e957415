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

# On a clean slate, pass on the context of all failed attempts; otherwise the end of the last attempt's log. decree keeps both short.
last="$message_dir/attempts/$((${DECREE_ATTEMPT:-1} - 1))/log-tail.txt"
if [ -s "$message_dir/failure-context.md" ]; then
  prompt+="

Earlier attempts failed and were reverted. This is what is known about them:
$(cat "$message_dir/failure-context.md")"
elif [ -s "$last" ]; then
  prompt+="

An earlier attempt failed; its changes are still in the tree. The end of its log:
$(cat "$last")"
fi

# The AI command reads the prompt from standard input, or from the file that replaces {prompt_file} in it. The prompt is never an
# argument: the system limits one to 128 KiB.
prompt_file="${message_dir:-$(mktemp -d)}/prompt.md"
printf '%s\n' "$prompt" >"$prompt_file"
input="$prompt_file"
for at in "${!ai[@]}"; do
  word="${ai[at]}"
  if [[ "$word" == *'{prompt_file}'* ]]; then
    ai[at]="${word%%'{prompt_file}'*}$prompt_file${word#*'{prompt_file}'}"
    input=/dev/null
  fi
done
"${ai[@]}" <"$input"

# Another exit code than 1 could mean that the routine itself cannot run, which is not retried.
if [ -n "$check" ] && ! bash -c "$check"; then
  echo "develop: the check failed: $check" >&2
  exit 1
fi
