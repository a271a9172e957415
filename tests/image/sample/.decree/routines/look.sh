#!/usr/bin/env bash
# Look: writes down what a routine sees of the container it runs in.
set -euo pipefail
env | LC_ALL=C sort >seen-environment.txt
cat /proc/1/comm >seen-init.txt
# Name and state of each process; one may be gone by the time it is looked at.
for process in /proc/[0-9]*; do
  awk '/^Name:|^State:/ { printf "%s ", $2 } END { print "" }' "$process/status" 2>/dev/null || :
done >seen-processes.txt
id -un >seen-user.txt || : # a read-only container has no entry for the user
touch "$HOME/written"
git status --short >seen-git.txt 2>&1
