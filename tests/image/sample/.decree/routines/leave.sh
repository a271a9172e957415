#!/usr/bin/env bash
# Leave: starts processes that outlive their parent.
for _ in 1 2 3; do
  (setsid sleep 0.1 &)
  (setsid sleep 1000 &)
done
