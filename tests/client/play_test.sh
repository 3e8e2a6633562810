#!/bin/sh
# The demo's training, captured, and played bit for bit.
set -eu
dir=$(mktemp -d)
kilnd=
trap 'kill -KILL $kilnd 2>/dev/null || true; rm -rf "$dir"' EXIT
server/kilnd --listen=127.0.0.1:0 --port_file="$dir/port" --capture="$dir/digits.kilncap" > "$dir/log" 2>&1 &
kilnd=$!
tries=0
until [ -s "$dir/port" ]; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] || { cat "$dir/log"; exit 1; }
  sleep 0.1
done
client/demo/train_digits --server="127.0.0.1:$(cat "$dir/port")" --epochs=1 > "$dir/out" || { cat "$dir/out"; exit 1; }
kill -TERM $kilnd
wait $kilnd
client/cli/kiln play "$dir/digits.kilncap" --backend=cpu --kilnd=server/kilnd > "$dir/out" || { cat "$dir/out"; exit 1; }
grep -q "the capture is whole" "$dir/out"
# One line a program: training's and, where the demo shows accuracy, the one without gradients.
[ "$(grep -cE '^[0-9a-f]{16} ' "$dir/out")" -ge 2 ] || { cat "$dir/out"; exit 1; }
