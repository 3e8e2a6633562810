#!/bin/sh
# The demo as `./dev demo` runs it: it exits with 0 only if accuracy, cache hits and the
# server's end were as they should be.
set -eu
output=$(client/demo/train_digits --kilnd=server/kilnd)
echo "$output"
for line in "held-out accuracy 0.9" "after the first epoch 100.00%" "a naive client" \
  "kilnd stopped and exited with 0"; do
  echo "$output" | grep -q "$line" || { echo "missing: $line"; exit 1; }
done
