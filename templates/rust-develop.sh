#!/usr/bin/env bash
# Develop in Rust: implement, change or fix Rust code as a spec or a message describes it; cargo has to format, lint and test it.
# needs: ai, cargo
set -euo pipefail

export check="${check:-cargo fmt && cargo clippy --all-targets -- -D warnings && cargo test}"

exec bash "$(dirname "${BASH_SOURCE[0]}")/develop.sh"
