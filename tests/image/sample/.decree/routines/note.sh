#!/usr/bin/env bash
# Note: writes down a parameter.
text="${text:-}"
printf '%s\n' "$text" >note.txt
