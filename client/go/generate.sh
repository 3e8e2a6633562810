#!/usr/bin/env bash
# Writes v1/*.pb.go, the protocol's messages and stubs, from proto/kiln/v1, and v1/inference/*.pb.go, those of the open
# inference protocol, from proto/inference. They are no part of the repository.
#
# protoc is Debian's (protobuf-compiler); its two plugins are tools of this module's tools/go.mod, so their versions are
# pinned there, and the Go toolchain brings them. Nothing is written while the files are newer than what they are made of.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
PROTO=../../proto

newest=$(ls -t "$PROTO"/kiln/v1/*.proto "$PROTO"/inference/*.proto tools/go.mod generate.sh | head -1)
[[ ! -e v1/stamp || "$newest" -nt v1/stamp ]] || exit 0
mkdir -p v1/bin
for plugin in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
  go -C tools build -o ../v1/bin/ "$plugin"
done
# That protocol is not ours, and its files say no package of this module.
names=module=kiln
for file in grpc_service model_config; do names+=,Minference/$file.proto=kiln/v1/inference; done
PATH=$PWD/v1/bin:$PATH protoc -I "$PROTO" --go_out=. --go_opt="$names" --go-grpc_out=. --go-grpc_opt="$names" \
  "$PROTO"/kiln/v1/*.proto "$PROTO"/inference/*.proto
touch v1/stamp
