#!/bin/bash
# One server of a pool, on a node that Slurm gave: it has the GPUs, cores and memory of its task, tells clients its address
# by a file, and takes that away before it drains.
#
#   KILN_POOL              folder that all nodes and the clients see: a file for each server, JOB.NODE.TASK, with its
#                          address
#   KILN_CONFIG            settings of kilnd (--config): who may use it, certificates, the folder of programs. Without it
#                          the server is on loopback, for this node alone
#   KILN_LISTEN            where it listens; 0.0.0.0:0 with KILN_CONFIG. Port 0 takes a free one
#   KILN_HOST              the name by which clients reach this node; what hostname --fqdn says
#   KILND, KILN            the programs; kilnd and kiln of PATH
#   KILN_ADMIN_TOKEN_FILE  token of a tenant with ADMIN_RIGHT: what each tenant has used is written to
#                          KILN_POOL/accounts/JOB.NODE.TASK.json when the server ends. Without tenants no token is needed
set -u
: "${KILN_POOL:?a folder that all nodes and the clients see}"
: "${SLURM_JOB_ID:?this is for srun}"
name=$SLURM_JOB_ID.${SLURMD_NODENAME:-$(hostname -s)}.${SLURM_LOCALID:-0}
host=${KILN_HOST:-$(hostname --fqdn)}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# Each task is a server of its own, whatever MPI Slurm would set up for them.
flags=(--mpi=off "--port_file=$folder/port")
if [[ -n ${KILN_CONFIG-} ]]; then
  flags+=("--config=$KILN_CONFIG" "--listen=${KILN_LISTEN:-0.0.0.0:0}" "--advertise=$host:0")
else
  host=127.0.0.1
  flags+=("--listen=${KILN_LISTEN:-127.0.0.1:0}")
fi
# GRES: Slurm hides all GPUs but the task's by these, which the drivers obey. A server that was given GPUs and does not find
# them does not start; one that was given none takes none.
given() { [[ -n $1 && $1 != NoDevFiles && $1 != -1 ]]; }
gpus=
if given "${CUDA_VISIBLE_DEVICES-}"; then gpus=cuda; fi
if given "${ROCR_VISIBLE_DEVICES-}" && [[ -z $gpus ]]; then gpus=hip; fi
flags+=("--gpus=${gpus:-none}")
# Memory: four fifths of what was asked for, in MiB, where control groups do not say it already; one of them is for
# compilations.
if [[ ${SLURM_MEM_PER_NODE:-0} -gt 0 ]]; then
  fifth=$((SLURM_MEM_PER_NODE * 1024 * 1024 / 5))
  flags+=("--cpu_memory_bytes=$((3 * fifth))")
  # It is never less than 64 MiB.
  flags+=("--compile_limits_max_total_memory_bytes=$((fifth > 67108864 ? fifth : 67108864))")
fi

leave() { rm -f "$KILN_POOL/$name"; }
account() {
  local ask=("${KILN:-kiln}" --server "$address" top --json)
  if [[ -n ${KILN_ADMIN_TOKEN_FILE-} ]]; then ask+=(--token_file "$KILN_ADMIN_TOKEN_FILE"); fi
  mkdir -p "$KILN_POOL/accounts"
  if timeout 10 "${ask[@]}" >"$KILN_POOL/accounts/.$name"; then
    mv "$KILN_POOL/accounts/.$name" "$KILN_POOL/accounts/$name.json"
  else
    rm -f "$KILN_POOL/accounts/.$name"
  fi
}
stopping=
# Slurm's signal comes to this shell and, as it does not forward it, to nobody else: no new client finds the server, and
# then it drains. Where a whole job is cancelled the signal comes twice, of which kilnd would take the second for haste.
stop() {
  [[ -z $stopping ]] || return
  stopping=yes
  leave
  if [[ -n ${address-} ]]; then account; fi
  kill -TERM "$kilnd" 2>/dev/null
}

mkdir -p "$KILN_POOL" || exit 1
# In a session of its own, so that a signal to all of the task's processes does not come before `stop` has had its turn.
setsid --wait "${KILND:-kilnd}" "${flags[@]}" &
kilnd=$!
trap stop TERM
until [[ -s $folder/port ]]; do
  if ! kill -0 "$kilnd" 2>/dev/null; then
    wait "$kilnd"
    exit $?
  fi
  sleep 0.1
done
address=$host:$(cat "$folder/port")
# Whole or not at all, as clients may look at any time.
if [[ -z $stopping ]]; then
  echo "$address" >"$KILN_POOL/.$name" && mv "$KILN_POOL/.$name" "$KILN_POOL/$name"
  echo "kiln: $name serves at $address"
fi
# A signal ends a wait, not kilnd.
while kill -0 "$kilnd" 2>/dev/null; do
  wait "$kilnd"
  status=$?
done
leave
exit "${status:-0}"
