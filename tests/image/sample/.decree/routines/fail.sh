#!/usr/bin/env bash
# Fail: damages everything it can access, and is reverted.
set -euo pipefail
rm -r deep hello.sh
printf '\000 damaged' >picture.bin
chmod 777 private.txt
ln -sf /etc/passwd greet
mkdir left
printf 'left behind\n' >left/behind
exit 7
