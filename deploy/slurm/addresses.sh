#!/bin/bash
# The servers of a pool as a list for KILN_ADDR, in any order. It ends with 1 if there are none.
#
#   KILN_ADDR=$(deploy/slurm/addresses.sh /shared/kiln/pool) && export KILN_ADDR           whose files are in the folder
#   KILN_ADDR=$(deploy/slurm/addresses.sh --squeue kiln-pool 7437) && export KILN_ADDR     the nodes of your running jobs of
#                                                                                          that name
#
# Anybody may give a job that name, or put a file in a folder where all may write, and clients would tell that server their
# tokens: so only your own jobs count, and files of yours or of the folder's owner.
# A file says that its server serves. Slurm knows only which nodes it gave: without a folder that clients see, where each
# server has the same port (KILN_LISTEN), that is enough, and clients pass over one that does not serve yet, or no longer.
set -u
shopt -s nullglob
list=
if [[ ${1-} == --squeue ]]; then
  job=${2:?the name of jobs} port=${3:?the port of their servers}
  while read -r nodes; do
    for address in $(scontrol --oneliner show node "$nodes" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p'); do
      list+=,$address:$port
    done
  done < <(squeue --noheader --me --name="$job" --states=RUNNING --format=%N)
  where="a running job $job of yours"
else
  pool=${1:-${KILN_POOL:?a folder, or KILN_POOL}}
  owner=$(stat -L -c %u "$pool")
  for file in "$pool"/[0-9]*.*; do
    [[ -f $file && ! -L $file && (-O $file || $(stat -c %u "$file") == "$owner") ]] || continue
    if read -r address <"$file"; then list+=,$address; fi
  done
  where=$pool
fi
[[ -n $list ]] || {
  echo "kiln: no server in $where" >&2
  exit 1
}
# Not all clients at the first one.
tr ',' '\n' <<<"${list#,}" | sort -u | shuf | paste -sd,
