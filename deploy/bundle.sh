#!/usr/bin/env bash
# bundle.sh FILE BINARY… -- DATA…: an archive of these programs and their libraries (deploy/tree.sh) for machines with GPUs.
#
#   kiln/bin, kiln/lib  the programs and the libraries they load
#   kiln/DATA    files and folders that they read, from kiln/ as their working folder
#   kiln/gpu.sh  runs the tests and benches among them (deploy/gpu.sh)
set -euo pipefail

say() { printf '%s\n' "bundle: $*" >&2; }

mkdir -p "$(dirname "$1")"
archive=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/kiln

programs=()
while (($#)) && [[ $1 != -- ]]; do
  programs+=("$1")
  shift
done
"$(dirname "$0")/tree.sh" "$root" "${programs[@]}"
for data in "${@:2}"; do
  mkdir -p "$root/$(dirname "$data")"
  cp -r "$data" "$root/$data"
done
install -m 755 "$(dirname "$0")/gpu.sh" "$root/"

tar -C "$work" --sort=name --owner=0 --group=0 --mtime=@0 -cf - kiln | xz -9 -T0 >"$archive"
say "$archive: $(du -h "$archive" | cut -f1), $(du -sh "$root" | cut -f1) unpacked"
