#!/bin/bash
# The servers of a pool as a list for KILN_ADDR: those whose files are in the folder, in any order. It ends with 1 if there
# are none.
#
#   export KILN_ADDR=$(deploy/slurm/addresses.sh /shared/kiln/pool)
set -u
pool=${1:-${KILN_POOL:?a folder, or KILN_POOL}}
shopt -s nullglob
list=
for file in "$pool"/[0-9]*.*; do
  if [[ -f $file ]] && read -r address <"$file"; then list+=,$address; fi
done
[[ -n $list ]] || {
  echo "kiln: no server in $pool" >&2
  exit 1
}
# Not all clients at the first one.
tr ',' '\n' <<<"${list#,}" | shuf | paste -sd,
