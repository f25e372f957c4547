#!/bin/sh
# Runs a command that says nothing and takes a while; shows what it is doing, elapsed and remaining time.
# Usage: with_progress.sh WHAT USUAL_SECONDS COMMAND...
set -u
what=$1 usual=$2
shift 2
start=$(date +%s)
echo "$what, about $usual s"
"$@" &
command=$!
trap 'kill "$command" 2>/dev/null' INT TERM
shown=0
while kill -0 "$command" 2>/dev/null; do
    sleep 1
    elapsed=$(($(date +%s) - start))
    if [ $((elapsed - shown)) -ge 10 ]; then
        shown=$elapsed
        left=$((usual - elapsed))
        [ "$left" -gt 0 ] && echo "$what, $elapsed s elapsed, about $left s left" || echo "$what, $elapsed s elapsed, longer than usual"
    fi
done
wait "$command"
