#!/bin/sh
# `kiln cache` on a folder that servers use, and --warm_up from what it writes.
set -eu
dir=$(mktemp -d)
kiln=client/cli/kiln
kilnd=
trap 'kill -KILL $kilnd 2>/dev/null || true; rm -rf "$dir"' EXIT

# serve FLAG...: a kilnd with these flags; its address is $KILN_ADDR.
serve() {
  rm -f "$dir/port"
  server/kilnd --listen=127.0.0.1:0 --port_file="$dir/port" "$@" >> "$dir/log" 2>&1 &
  kilnd=$!
  tries=0
  until [ -s "$dir/port" ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { cat "$dir/log"; exit 1; }
    sleep 0.1
  done
  KILN_ADDR=127.0.0.1:$(cat "$dir/port")
  export KILN_ADDR
}
# logged TEXT: waits for it to stand in the log.
logged() {
  tries=0
  until grep -qF -e "$1" "$dir/log"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "no '$1' in the log"; cat "$dir/log"; exit 1; }
    sleep 0.1
  done
}
stop() { kill -KILL $kilnd; wait $kilnd 2>/dev/null || true; }

# expect TEXT COMMAND...: the command succeeds and its output has the text.
# refuse TEXT COMMAND...: the command fails with 1, or $STATUS, and says the text.
expect() {
  text=$1; shift
  "$@" > "$dir/out" 2>&1 || { echo "failed: $*"; cat "$dir/out"; exit 1; }
  grep -qF -e "$text" "$dir/out" || { echo "no '$text' in: $*"; cat "$dir/out"; exit 1; }
}
refuse() {
  text=$1; shift
  rc=0; "$@" > "$dir/out" 2>&1 || rc=$?
  [ $rc -eq ${STATUS:-1} ] || { echo "exit $rc, not ${STATUS:-1}: $*"; cat "$dir/out"; exit 1; }
  grep -qF -e "$text" "$dir/out" || { echo "no '$text' in: $*"; cat "$dir/out"; exit 1; }
}

for number in 1 2 3; do
  cat > "$dir/add$number.uop" <<UOP
0 CONST [] weakint 4
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32 name="x"
3 CONST [] float32 $number.0
4 ADD [2, 3]
5 TUPLE [4]
UOP
done

serve --program_cache_dir="$dir/cache"
for number in 1 2 3; do expect "in kernels" $kiln run "$dir/add$number.uop" --zeros; done
hash=$($kiln graph hash "$dir/add1.uop")
expect "on disk: 0 hits, 3 misses, 0 bad entries; 3 stored, 0 not" $kiln programs

# Beside the server.
expect "3 programs" $kiln cache ls "$dir/cache"
expect "$hash" $kiln cache ls "$dir/cache"
expect "3 good, 0 bad" $kiln cache verify "$dir/cache"
expect "3 programs in $dir/all.kiln, 0 bad ones left out" $kiln cache export "$dir/cache" "$dir/all.kiln"
expect "1 programs in $dir/one.kiln" $kiln cache export "$dir/cache" "$dir/one.kiln" --graph "$hash"
expect "3 programs listed" $kiln cache export "$dir/cache" "$dir/list.txt" --warm_up
expect "$hash contraction=1" cat "$dir/list.txt"
expect "1 programs taken, 0 there already, 0 refused" $kiln cache import "$dir/other" "$dir/one.kiln"
expect "2 programs taken, 1 there already, 0 refused" $kiln cache import "$dir/other" "$dir/all.kiln"
expect "3 good, 0 bad" $kiln cache verify "$dir/other"
KILN_PROGRAM_CACHE_DIR="$dir/other" expect "3 programs" $kiln cache ls
stop

# A byte of an entry, and of a bundle's second, changed.
entry=$(ls "$dir"/other/*.kiln | head -1)
printf 'x' | dd of="$entry" bs=1 seek=3000 conv=notrunc 2> /dev/null
refuse "checksum: its bytes are not those that were written" $kiln cache verify "$dir/other"
expect "2 programs in $dir/rest.kiln, 1 bad ones left out" $kiln cache export "$dir/other" "$dir/rest.kiln"
size=$(wc -c < "$dir/all.kiln")
printf 'x' | dd of="$dir/all.kiln" bs=1 seek=$((size / 2)) conv=notrunc 2> /dev/null
refuse "2 programs taken, 0 there already, 1 refused" $kiln cache import "$dir/third" "$dir/all.kiln"
head -c 2000 "$dir/one.kiln" > "$dir/cut.kiln"
refuse "bundle: an entry of" $kiln cache import "$dir/third" "$dir/cut.kiln"
refuse "$dir/list.txt is none" $kiln cache import "$dir/third" "$dir/list.txt"
refuse "cannot open the folder $dir/nowhere" $kiln cache ls "$dir/nowhere"
expect "removed 2 programs" $kiln cache gc "$dir/third" --bytes 0
expect "removed 0 programs" $kiln cache gc "$dir/cache" --bytes 1GB
chmod 777 "$dir/third"
STATUS=4 refuse "others may write to $dir/third" $kiln cache ls "$dir/third"

# Ready only with what the list names, and without compiling.
serve --program_cache_dir="$dir/cache" --warm_up="$dir/list.txt"
tries=0
until $kiln health > /dev/null 2>&1; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] || { cat "$dir/log"; exit 1; }
  sleep 0.1
done
expect "3 programs; " $kiln programs
expect "0 compiles" $kiln programs
expect "on disk: 3 hits, 0 misses" $kiln programs
logged "event=warmed programs=3 loaded=3 failed=0"
logged "event=loaded"
stop
# A bundle brings what it names; a server of other settings does not take it for its own. Of the same core, as it was
# measured once: beside other work figures differ, and so would what is compiled for them.
mkdir -m 700 "$dir/fourth"
cp "$dir"/cache/core-* "$dir/fourth/"
serve --program_cache_dir="$dir/fourth" --warm_up="$dir/one.kiln"
logged "event=warmed programs=1 loaded=1 failed=0"
stop
serve --program_cache_dir="$dir/fourth" --warm_up="$dir/list.txt" --graph_limits_max_nodes=1000
logged "event=warmed programs=3 loaded=0 failed=3"
stop
