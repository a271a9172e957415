#!/usr/bin/env bash
# Develop in Rust: implement, change or fix Rust code as a spec or a message describes it; cargo has to build, lint and test it.
# needs: ai, cargo
set -euo pipefail

spec_file="${spec_file:-}"
message_file="${message_file:-}"
message_dir="${message_dir:-}"

read -ra ai <<<"${DECREE_AI:-}"
if [ ${#ai[@]} -eq 0 ] || ! command -v "${ai[0]}" >/dev/null; then
  echo "rust-develop: the AI command '${ai[0]:-}' is not installed; see commands.ai in .decree/config.yml and \`decree doctor\`" >&2
  exit 127
fi

prompt="You are working unattended in this repository. Read what is asked for, then change the files so that it is fulfilled.
Keep to the style of the code around, add or adapt tests, and do not edit anything in specs/ or .decree/."
if [ -n "$spec_file" ]; then
  prompt+="

What is asked for stands in ${spec_file}. Fulfil every criterion in it."
fi
if [ -s "$message_file" ]; then
  prompt+="

The message that asks for it:
$(cat "$message_file")"
fi

# What earlier attempts teach: all of it on a clean slate, the end of the last log on top of its work.
last="$message_dir/attempts/$((${DECREE_ATTEMPT:-1} - 1))/routine.log"
if [ -s "$message_dir/failure-context.md" ]; then
  prompt+="

Earlier attempts failed and were put back. This is what is known of them:
$(cat "$message_dir/failure-context.md")"
elif [ -s "$last" ]; then
  prompt+="

An earlier attempt failed; its changes are still in the tree. The end of its log:
$(tail -n 60 "$last")"
fi

"${ai[@]}" "$prompt"

cargo fmt
cargo clippy --all-targets -- -D warnings
cargo test
