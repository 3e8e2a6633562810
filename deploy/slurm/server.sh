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

# Slurm's signal reaches kilnd, too, wherever it hides: a grace, in which it serves on, is for clients that have its address
# and for its accounts.
if [[ -z ${KILN_DRAIN_GRACE_SECONDS-} ]] && ! grep -qs '^ *drain_grace_seconds' "${KILN_CONFIG-}"; then
  flags+=(--drain_grace_seconds=5)
fi

leave() { rm -f "$KILN_POOL/$name"; }
asks() {
  local words=("${KILN:-kiln}" --server "$address" "$@")
  if [[ -n ${KILN_ADMIN_TOKEN_FILE-} ]]; then words+=(--token_file "$KILN_ADMIN_TOKEN_FILE"); fi
  timeout 10 "${words[@]}"
}
account() {
  mkdir -p "$KILN_POOL/accounts"
  if asks top --json >"$KILN_POOL/accounts/.$name"; then
    mv "$KILN_POOL/accounts/.$name" "$KILN_POOL/accounts/$name.json"
  else
    rm -f "$KILN_POOL/accounts/.$name"
  fi
}
# Whether it has been told to stop: then health checks fail, of which 3 is the status, or nobody is there any more. Where it
# could never be asked, that says nothing.
leaves() {
  [[ -n $answers ]] || return 1
  asks health >/dev/null 2>&1
  (($? == 3))
}
answers=
stopping=
# Slurm sends the signal to all processes of a task, and where a whole job is cancelled twice: no new client finds the
# server, and then it drains. kilnd takes a second signal for haste, so it gets none from here if it has had one.
stop() {
  [[ -z $stopping ]] || return
  stopping=yes
  leave
  if [[ -n ${address-} ]]; then
    account
    if leaves; then return; fi
  fi
  kill -TERM "$kilnd" 2>/dev/null
}

mkdir -p "$KILN_POOL" || exit 1
# In a session of its own: where Slurm knows a task's processes by their group, `stop` has its turn first.
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
if asks health >/dev/null 2>&1; then answers=yes; fi
# Whole or not at all, as clients may look at any time.
if [[ -z $stopping ]]; then
  echo "$address" >"$KILN_POOL/.$name" && mv "$KILN_POOL/.$name" "$KILN_POOL/$name"
  echo "kiln: $name serves at $address"
fi
# A signal ends a wait, not kilnd, whose own status is then still to be had; 127 where it was had already.
while kill -0 "$kilnd" 2>/dev/null; do
  wait "$kilnd"
  status=$?
done
wait "$kilnd"
last=$?
if ((last != 127)); then status=$last; fi
leave
exit "$status"
