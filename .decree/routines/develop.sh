#!/usr/bin/env bash
# Work on decree itself: an AI coding tool carries out a spec, then everything that CI checks is checked.
set -euo pipefail

spec_file="${spec_file:-}"
ai="${ai:-claude -p}"

if ! command -v "${ai%% *}" >/dev/null; then
  echo "develop: '${ai%% *}' is not installed; set ai= to the command of your AI coding tool" >&2
  exit 1
fi

prompt="Work on this repository so that it fulfils ${spec_file}. Read docs/architecture.md first and keep it true.
Every criterion in the spec has an id; a test in tests/suite must name it. Keep CHANGELOG.md.
When you are done, \`.ci/run\` has to pass."
if [ -f "${message_dir:-/nonexistent}/failure-context.md" ]; then
  prompt+="
Earlier attempts failed; this is what was learned:
$(cat "${message_dir}/failure-context.md")"
fi

# shellcheck disable=SC2086 # the command may have arguments
$ai "$prompt"

cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
cargo test --locked
