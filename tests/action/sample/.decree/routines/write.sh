#!/usr/bin/env bash
# Writes what a spec asks for, or fails in the way it asks for.
spec_file="${spec_file:-}"
set -euo pipefail

echo "::error::forged by a routine"
echo "::set-output name=verdict::forged"
echo "the key is $SAMPLE_API_KEY"
case $spec_file in
  *greeting*)
    echo 'Hello, world' >greeting.txt
    printf 'a\0b' >binary.dat
    ;;
  *secret*) echo "key = $SAMPLE_API_KEY" >settings.ini ;;
  *broken*)
    echo 'half done' >greeting.txt
    echo 'this cannot work' >&2
    exit 7
    ;;
esac
