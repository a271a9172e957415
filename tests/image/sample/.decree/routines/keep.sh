#!/usr/bin/env bash
# Keep: everything that a change can be, and it is kept.
set -euo pipefail
printf 'second line, no newline at the end' >>notes.txt
printf '\000\001\377 changed' >picture.bin
printf '#!/bin/sh\necho hello\n' >hello.sh
chmod 755 hello.sh
ln -s hello.sh greet
chmod 600 private.txt
rm old.txt
mkdir -p 'deep/er and wider'
printf 'ünïcode\r\n' >'deep/er and wider/file'
