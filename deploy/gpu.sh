#!/usr/bin/env bash
# gpu.sh [FOLDER [conformance | digits | bench]]: on a machine with GPUs and their driver, the conformance suites of this
# archive, then a training through its server on each card, then its benches, beside PyTorch where there is one; or one
# of the three. Nothing is installed, built or fetched.
#
# FOLDER (this one) gets gpu-report.md; the logs gpu-conformance.log, gpu-digits.log, gpu-bench.log and gpu-torch.log;
# the figures, gpu-bench.jsonl and gpu-torch.jsonl, an object a line; and gpu-conformance/, a log for each test.
#
# Each test and each row of the benches is a process of its own: after a kernel that goes astray, CUDA does nothing more
# for the process that launched it.
#
#   status 0   all that was run passed
#          1   something failed: the report says what
#          77  there is no GPU that Kiln has code for; nothing was run
#
#   KILN_GPU_LIMIT=900   seconds that a test, a row, or all of PyTorch's may take
#   KILN_GPU_JOBS        tests at a time; as many as there are cores, at most 16
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
parts=${2-conformance digits bench}
[[ " conformance digits bench " == *" $parts "* ]] ||
  { echo "gpu.sh: no part '$parts': conformance, digits or bench" >&2; exit 2; }
mkdir -p "${1-.}" || exit 2
out=$(cd "${1-.}" && pwd)
limit=${KILN_GPU_LIMIT-900}
at_once=${KILN_GPU_JOBS-$(nproc)}
((at_once <= 16)) || at_once=16
report=$out/gpu-report.md
failed=()

limited() { timeout -k 10 "$limit" "$@" </dev/null; }

tell() { tee -a "$report"; }

# What a status says, but for whether anything was tested.
ended() {
  case $1 in
    0) echo passed ;;
    124 | 137) echo "failed: killed, by its limit of $limit s or for memory" ;;
    12[5-7]) echo "failed: it could not be started" ;;
    *) (($1 > 128)) && echo "failed: crashed by signal $(($1 - 128))" || echo "failed: status $1" ;;
  esac
}

# FILE: as it is, or its beginning and its end.
shortened() {
  if (($(wc -c <"$1") <= 8000)); then
    cat "$1"
  else
    head -c 5000 "$1"
    printf '\n… the whole is in the log …\n'
    tail -c 2500 "$1"
  fi
}

one_test() {
  local name=$1 log=$logs/${1//\//_}.log started=$SECONDS status=0 said
  (cd "$here" && limited bin/gpu_conformance_test --gtest_filter="$name") >"$log" 2>&1 || status=$?
  said=$(ended $status)
  if ((status == 0)) && ! grep -q '^\[  PASSED  \] 1 test' "$log"; then
    grep -q '^\[  SKIPPED \]' "$log" && said=skipped || said="failed: it says of no test that it passed"
  fi
  printf '%s\n%s\n' "$said" "$((SECONDS - started))" >"${log%.log}.said"
}

conformance() {
  local list status=0 names name log said seconds
  logs=$out/gpu-conformance
  rm -rf "$logs"
  mkdir -p "$logs"
  list=$(cd "$here" && limited bin/gpu_conformance_test --gtest_list_tests 2>"$logs/list.log") || status=$?
  mapfile -t names < <(awk '/^[^ ].*\.$/ { suite = $1 } /^  / { print suite $1 }' <<<"$list")
  printf '\n## Conformance\n\n' | tell
  if ((status != 0 || ${#names[@]} == 0)); then
    failed+=("the list of tests: $(ended $status)")
    { echo "No test was run: the suite does not list any ($(ended $status))."; cat "$logs/list.log"; } | tell
    return
  fi
  for name in "${names[@]}"; do
    while (($(jobs -rp | wc -l) >= at_once)); do wait -n; done
    one_test "$name" &
  done
  wait
  printf '| test | | seconds |\n|---|---|---|\n' | tell
  local unclear=()
  : >"$out/gpu-conformance.log"
  for name in "${names[@]}"; do
    log=$logs/${name//\//_}.log
    said='failed: its end was not seen' seconds=
    [[ ! -e ${log%.log}.said ]] || { read -r said && read -r seconds; } <"${log%.log}.said"
    echo "| $name | $said | $seconds |" | tell
    [[ $said == passed || $said == skipped ]] || failed+=("$name: ${said#failed: }")
    [[ $said == passed ]] || unclear+=("$name")
    { echo "=== $name: $said"; cat "$log"; } >>"$out/gpu-conformance.log"
  done
  for name in "${unclear[@]}"; do
    { printf '\n%s:\n\n```\n' "$name"; shortened "$logs/${name//\//_}.log"; printf '```\n'; } | tell
  done
}

# A small network, trained on handwritten digits through the server.
digits() {
  local card status
  printf '\n## Digits\n' | tell
  : >"$out/gpu-digits.log"
  for card in "${cards[@]}"; do
    status=0
    (cd "$here" && limited bin/train_digits --kilnd=bin/kilnd --device="$card") >"$out/gpu-run.log" 2>&1 || status=$?
    ((status == 0)) || failed+=("digits on $card: $(ended $status)")
    { printf '\n%s: %s\n\n```\n' "$card" "$(ended $status)"; shortened "$out/gpu-run.log"; printf '```\n'; } | tell
    cat "$out/gpu-run.log" >>"$out/gpu-digits.log"
  done
  rm -f "$out/gpu-run.log"
}

# PyTorch's figures, of the rows that gpu_bench has.
torch() {
  local status=0
  rm -f "$out/gpu-torch.jsonl"
  if ! python3 -c 'import torch' >/dev/null 2>&1; then
    printf '\nNot beside PyTorch: python3 has no torch here.\n' | tell
  elif ! python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >"$out/gpu-torch.log" 2>&1; then
    printf '\nNot beside PyTorch: it finds no card here.\n' | tell
  else
    limited python3 "$here/tests/gpu/torch_bench.py" --json "$out/gpu-torch.jsonl" >"$out/gpu-torch.log" 2>&1 || status=$?
    if ((status != 0)); then
      failed+=("torch_bench.py: $(ended $status)")
      { printf '\nOf PyTorch not all was measured (%s):\n\n```\n' "$(ended $status)"
        shortened "$out/gpu-torch.log"
        printf '```\n'; } | tell
    fi
  fi
}

bench() {
  local list status=0 names name tables=("$out/gpu-bench.jsonl")
  rm -f "$out/gpu-bench.jsonl"
  printf '\n## Speed\n' | tell
  list=$(limited "$here/bin/gpu_bench" --list 2>"$out/gpu-bench.log") || status=$?
  if ((status != 0)) || [[ -z $list ]]; then
    failed+=("gpu_bench --list: $(ended $status)")
    { printf '\nNothing was measured: gpu_bench names no rows (%s).\n' "$(ended $status)"; cat "$out/gpu-bench.log"; } | tell
    return
  fi
  mapfile -t names <<<"$list"
  for name in "${names[@]}"; do
    status=0
    limited "$here/bin/gpu_bench" --row="$name" --json="$out/gpu-bench.jsonl" >"$out/gpu-row.log" 2>&1 || status=$?
    { echo "=== $name: $(ended $status)"; cat "$out/gpu-row.log"; } >>"$out/gpu-bench.log"
    if ((status != 0)); then
      failed+=("$name: $(ended $status)")
      { printf '\n%s: %s\n\n```\n' "$name" "$(ended $status)"; shortened "$out/gpu-row.log"; printf '```\n'; } | tell
    fi
  done
  rm -f "$out/gpu-row.log"
  torch
  [[ ! -e $out/gpu-torch.jsonl ]] || tables+=("$out/gpu-torch.jsonl")
  status=0
  python3 "$here/tests/gpu/beside.py" "${tables[@]}" >"$out/gpu-table.md" 2>&1 || status=$?
  if ((status == 0)); then
    tell <"$out/gpu-table.md"
  else
    { printf '\nThere is no table (beside.py: %s), but the programs'"'"' own words:\n\n```\n' "$(ended $status)"
      shortened "$out/gpu-table.md"
      shortened "$out/gpu-bench.log"
      printf '```\n'; } | tell
  fi
  rm -f "$out/gpu-table.md"
}

{
  echo "# GPUs, $(date -u +%F)"
  echo
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>/dev/null || echo "no nvidia-smi"
  echo
} >"$report"
cat "$report"
status=0
limited "$here/bin/gpu_bench" --cards >"$out/gpu-cards.log" 2>&1 || status=$?
tell <"$out/gpu-cards.log"
mapfile -t cards < <(sed -n 's/^\([A-Z]*:[0-9]*\): .*/\1/p' "$out/gpu-cards.log")
rm -f "$out/gpu-cards.log"
if ((status == 77)); then
  printf '\nNo card was found, and nothing was run.\n' | tell
  exit 77
elif ((status != 0)); then
  failed+=("finding the cards: $(ended $status)")
else
  for part in $parts; do "$part"; done
fi

printf '\n## Outcome\n\n' | tell
if ((${#failed[@]})); then
  { echo "Failed:"; printf -- '- %s\n' "${failed[@]}"; } | tell
else
  echo "All passed that was run." | tell
fi
echo "gpu.sh: the report is $report" >&2
((${#failed[@]} == 0))
