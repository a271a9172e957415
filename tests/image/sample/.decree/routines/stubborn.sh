#!/usr/bin/env bash
# Stubborn: damages the tree, then runs for ever, here and in a session of its own, whatever signal asks it to end.
set -euo pipefail
trap '' TERM INT HUP
rm notes.txt
printf '\000 damaged' >picture.bin
chmod 777 private.txt
mkdir left
setsid sh -c 'while :; do sleep 1; echo more >>left/behind; done' &
echo yes >started
while :; do sleep 1; done
