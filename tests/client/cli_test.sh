#!/bin/sh
# The `kiln` command against a server: each subcommand once, and how it fails.
set -eu
dir=$(mktemp -d)
server/kilnd --listen=127.0.0.1:0 --port_file="$dir/port" > "$dir/log" 2>&1 &
kilnd=$!
trap 'kill -KILL $kilnd 2>/dev/null || true; rm -rf "$dir"' EXIT
tries=0
until [ -s "$dir/port" ]; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] || { cat "$dir/log"; exit 1; }
  sleep 0.1
done
KILN_ADDR=127.0.0.1:$(cat "$dir/port")
export KILN_ADDR
kiln=client/cli/kiln

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

cat > "$dir/scale.uop" <<'UOP'
0 CONST [] weakint 4
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32 name="x"
3 PARAM [1] slot=7 dtype=float32 name="state"
4 CONST [] float32 2.0
5 MUL [2, 4] @"doubled"
6 ADD [3, 5]
7 STORE [3, 6]
8 TUPLE [5, 7]
UOP
# numpy.save of float32 [1, 2, 3, 4]
printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }" > "$dir/x.npy"
printf '\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\100' >> "$dir/x.npy"

expect "$KILN_ADDR serves" $kiln health
expect "CPU:0" $kiln devices
expect "2 4 6 8" $kiln run "$dir/scale.uop" -i x="$dir/x.npy" --zeros -o "$dir/y.npy"
expect "updated state" $kiln run "$dir/scale.uop" --random
expect "4 8 12 16" $kiln run "$dir/scale.uop" -i 0="$dir/y.npy" --zeros
expect "in kernels" $kiln bench "$dir/scale.uop" --repeat 5
expect "x: float32 (4,), state: float32 (4,) updated) -> float32 (4,)" $kiln explain "$dir/scale.uop"
hash=$($kiln graph hash "$dir/scale.uop")
expect "$hash" $kiln programs
expect "$hash" $kiln explain "$hash"
expect "THREAD(0)" $kiln explain "$dir/scale.uop"
expect "candidates " $kiln tune "$dir/scale.uop" --budget_ms 300 --plot "$dir/search.svg"
expect "before" $kiln tune "$hash" --budget_ms 300 --beam 1
grep -q "<circle" "$dir/search.svg"
expect "--budget_ms" $kiln tune --help
expect "2 4 6 8" $kiln run "$dir/scale.uop" -i x="$dir/x.npy" --zeros -o "$dir/y.npy"
expect "PARAM [1] slot=0" $kiln graph print "$dir/scale.uop"
$kiln graph print "$dir/scale.uop" > "$dir/again.uop"
expect "$hash" $kiln graph hash "$dir/again.uop"
expect "<svg" $kiln graph svg "$dir/scale.uop"
for stage in callify rangeify memory_plan render; do expect "<svg" $kiln graph svg "$dir/scale.uop" --stage $stage; done
kernel=$($kiln explain "$dir/scale.uop" | grep -o 'k0_[A-Za-z0-9_]*' | head -1)
for stage in optimize expand select linearize; do
  expect "<svg" $kiln graph svg "$dir/scale.uop" --stage $stage/$kernel
  expect "# ----" $kiln explain "$dir/scale.uop" --stage $stage
done
refuse "no stage nothing; there are callify, rangeify" $kiln graph svg "$dir/scale.uop" --stage nothing
expect "kernel void k0_" $kiln explain "$dir/scale.uop" --source metal
expect ".visible .entry k0_" $kiln explain "$dir/scale.uop" --source sm_90a
expect "amdhsa_kernel k0_" $kiln explain "$dir/scale.uop" --source gfx942
expect "__kernel void k0_" $kiln explain "$dir/scale.uop" --source opencl
refuse "there are c, cuda, hip, opencl, metal, and the assembly of the GPUs sm_80, sm_90a" \
  $kiln explain "$dir/scale.uop" --source pascal

# The five pictures of a program's life.
$kiln explain "$dir/scale.uop" --pictures "$dir/life" > "$dir/out"
[ "$(wc -l < "$dir/out")" -ge 5 ] || { echo "too few pictures"; cat "$dir/out"; exit 1; }
has() { grep -qF -e "$2" "$dir"/life/$1 || { echo "no '$2' in $1"; exit 1; }; }
lacks() { ! grep -qF -e "$2" "$dir"/life/$1 || { echo "'$2' in $1"; exit 1; }; }
for op in PARAM MUL ADD STORE TUPLE; do has 1_tensor_graph.svg " $op"; done
for op in LINEAR CALL PARAM SINK; do has 2_calls.svg " $op"; done
lacks 2_calls.svg " RANGE"
for op in RANGE INDEX LOAD STORE END SINK; do has "3_loops_$kernel.svg" " $op"; done
has 4_source.svg "void $kernel(float* data0"
has 5_binary.svg "BINARY: "
has 5_binary.svg "$kernel:"

cat > "$dir/loss.uop" <<'UOP'
0 CONST [] weakint 4
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32 name="x"
3 MUL [2, 2]
4 REDUCE [3] ADD axes=(0)
5 TUPLE [4]
UOP
$kiln gradient "$dir/loss.uop" --wrt x -o "$dir/backward.uop"
expect "2 4 6 8" $kiln run "$dir/backward.uop" -i x="$dir/x.npy"
$kiln gradient "$dir/backward.uop" --wrt 0 --cotangent 5 --include-results -o "$dir/second.pb"
expect "result 1  float32 (4,)    2    8     5    0  2 4 6 8" $kiln run "$dir/second.pb" -i 0="$dir/x.npy" -i 5="$dir/x.npy"
refuse "the graph has no PARAM y; it has x" $kiln gradient "$dir/loss.uop" --wrt x,y
refuse "a program with a STORE has no gradient" $kiln gradient "$dir/scale.uop" --wrt x

expect "runs; open it at" $kiln trace -o "$dir/trace.json"
expect '"KernelService.Execute"' cat "$dir/trace.json"
expect " 0 calls" $kiln trace -o "$dir/trace.json" --seconds 0.000001
refuse "cannot write $dir/none/trace.json" $kiln trace -o "$dir/none/trace.json"

refuse "MISSING_ARGUMENT: no value for x, state" $kiln run "$dir/scale.uop"
refuse "UNKNOWN_ARGUMENT: the graph has no PARAM y; it has x, state" $kiln run "$dir/scale.uop" -i y="$dir/x.npy"
refuse "cannot read $dir/none.uop" $kiln run "$dir/none.uop"
refuse "the graph has 1 results" $kiln run "$dir/scale.uop" --random -o 1="$dir/z.npy"
refuse "NEED_GRAPH" $kiln explain 0000000000000000000000000000000000000000000000000000000000000000
refuse "there are callify" $kiln explain "$dir/scale.uop" --stage nothing
refuse "UNKNOWN_DEVICE" $kiln run "$dir/scale.uop" --random --device GPU:9
STATUS=3 refuse "is kilnd running there?" $kiln health --server 127.0.0.1:1
sed 's/^4 CONST.*/4 CONST [] int32 2/' "$dir/scale.uop" > "$dir/bad.uop"
refuse 'node    5 MUL [2, 4]' $kiln run "$dir/bad.uop" --random
refuse 'tag     doubled' $kiln run "$dir/bad.uop" --random

kill -TERM $kilnd
rc=0; wait $kilnd || rc=$?
[ $rc -eq 0 ] || { echo "kilnd exited with $rc"; cat "$dir/log"; exit 1; }
