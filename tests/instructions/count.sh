#!/usr/bin/env bash
# Counts the instructions of one run of each kernel, and compares them with counts.txt:
# one that moved by more than 3% has become slower, or the file is out of date.
# With --bless, writes the file.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$work/out" tests/instructions/kernels \
  >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# The lines of callgrind's format that matter: which object code belongs to (ob=, and cob=
# of who is called), where ??? is code that came from no file, so ours; a line's own cost;
# and calls=, whose next line is the cost of somebody else.
for dump in "$work"/out.*; do
  awk '
    /^desc: Trigger: Client Request: / { name = $NF }
    /^c?ob=/ { split($0, id, /[()]/); if (/\?\?\?$/) ours[id[2]] = 1 }
    /^ob=/ { inside = id[2] in ours }
    /^calls=/ { other = 1; next }
    /^[0-9+*-]/ { if (inside && !other) count += $2; other = 0 }
    END { print name, count }' "$dump"
done | sort >"$work/counts"

if [[ ${1-} == --bless ]]; then
  cp "$work/counts" "$BUILD_WORKSPACE_DIRECTORY/tests/instructions/counts.txt"
  exit
fi
join -a1 -a2 -e- -o0,1.2,2.2 tests/instructions/counts.txt "$work/counts" | awk '
  BEGIN { printf "%-24s %12s %12s\n", "instructions of", "kept", "now" }
  { moved = ($2 == "-" || $3 == "-") ? 1 : $3 / $2 - 1
    far = moved > 0.03 || moved < -0.03
    printf "%-24s %12s %12s %+6.1f%%%s\n", $1, $2, $3, 100 * moved, far ? "  <- moved" : ""
    if (far) bad = 1 }
  END { if (bad) print "If it is meant, ./dev bless writes counts.txt anew."; exit bad }'
