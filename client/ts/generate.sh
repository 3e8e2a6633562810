#!/usr/bin/env bash
# Writes src/gen/kiln/v1/*_pb.ts, the protocol's messages and services, from proto/kiln/v1, and src/gen/inference/*_pb.ts,
# those of served models, from proto/inference. They are no part of the repository.
#
# protoc is Debian's (protobuf-compiler); its plugin is one of npm's packages, whose version package-lock.json pins.
# Nothing is written while the files are newer than what they are made of.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
PROTO=../../proto

sources=("$PROTO"/kiln/v1/*.proto "$PROTO"/inference/*.proto)
newest=$(ls -t "${sources[@]}" package-lock.json generate.sh | head -1)
[[ ! -e src/gen/stamp || "$newest" -nt src/gen/stamp ]] || exit 0
rm -rf src/gen
mkdir -p src/gen
PATH=$PWD/node_modules/.bin:$PATH
protoc -I "$PROTO" --es_out=src/gen --es_opt=target=ts,import_extension=js "${sources[@]}"
touch src/gen/stamp
