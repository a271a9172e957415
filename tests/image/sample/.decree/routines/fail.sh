#!/usr/bin/env bash
# Fail: damages all it can reach, and is put back.
set -euo pipefail
rm -r deep hello.sh
printf '\000 damaged' >picture.bin
chmod 777 private.txt
ln -sf /etc/passwd greet
mkdir left
printf 'left behind\n' >left/behind
exit 7
