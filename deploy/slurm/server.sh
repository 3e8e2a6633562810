#!/bin/bash
# One server of a pool, on a node that Slurm gave: it has the GPUs, cores and memory of its task, tells clients its address
# by a file, and takes that away before it drains.
#
#   KILN_POOL              folder that all nodes and the clients see: a file for each server, JOB.NODE.TASK, with its
#                          address. Nobody but its owner may write there; it is made so where there is none
#   KILN_CONFIG            settings of kilnd (--config): who may use it, certificates, the folder of programs. Without it
#                          the server is on loopback, for this node alone
#   KILN_LISTEN            where it listens; 0.0.0.0:0 with KILN_CONFIG. Port 0 takes a free one
#   KILN_HOST              the name by which clients reach this node; what hostname --fqdn says
#   KILN_DEVICE_FILES      where the drivers of GPUs have their files; /dev
#   KILND, KILN            the programs; kilnd and kiln of PATH
#   KILN_ADMIN_TOKEN_FILE  token of a tenant with ADMIN_RIGHT: what each tenant has used is written to
#                          KILN_POOL/accounts/JOB.NODE.TASK.json when the server ends. Without tenants no token is needed
set -u
: "${KILN_POOL:?a folder that all nodes and the clients see}"
: "${SLURM_JOB_ID:?this is for srun}"
name=$SLURM_JOB_ID.${SLURMD_NODENAME:-$(hostname -s)}.${SLURM_LOCALID:-0}
host=${KILN_HOST:-$(hostname --fqdn)}
mkdir -p -m 700 "$KILN_POOL" || exit 1
# Drafts have names that nobody can guess, so that nobody has put a link there; and names of this task, so that the epilog
# finds what a killed one leaves.
draft() { mktemp "$1/.$name.XXXXXXXX"; }
leave() { rm -f "$KILN_POOL/$name" "$KILN_POOL/.$name".* "$KILN_POOL/accounts/.$name".*; }
trap leave EXIT
port=$(draft "$KILN_POOL") || exit 1

# Each task is a server of its own, whatever MPI Slurm would set up for them.
flags=(--mpi=off "--port_file=$port")
if [[ -n ${KILN_CONFIG-} ]]; then
  [[ -n $host ]] || {
    echo "kiln: this node has no name that clients know: set KILN_HOST" >&2
    exit 1
  }
  flags+=("--config=$KILN_CONFIG" "--listen=${KILN_LISTEN:-0.0.0.0:0}" "--advertise=$host:0")
else
  host=127.0.0.1
  flags+=("--listen=${KILN_LISTEN:-127.0.0.1:0}")
fi
# GRES: Slurm hides all GPUs but the task's by these, which the drivers obey. A server that was given GPUs and does not find
# them does not start; one that was given none takes none.
given() { [[ -n $1 && $1 != NoDevFiles && $1 != -1 ]]; }
gpus=none
if given "${CUDA_VISIBLE_DEVICES-}"; then gpus=cuda; fi
if given "${ROCR_VISIBLE_DEVICES-}"; then
  # Without AutoDetect in gres.conf Slurm knows of no maker, and sets both: then it is whose driver is here.
  devices=${KILN_DEVICE_FILES:-/dev}
  if [[ $gpus == none || (-e $devices/kfd && ! -e $devices/nvidiactl) ]]; then gpus=hip; fi
fi
flags+=("--gpus=$gpus")
# Memory: four fifths of what was asked for, in MiB, where control groups do not say it already; one of them is for
# compilations.
if [[ ${SLURM_MEM_PER_NODE:-0} -gt 0 ]]; then
  fifth=$((SLURM_MEM_PER_NODE * 1024 * 1024 / 5))
  flags+=("--cpu_memory_bytes=$((3 * fifth))")
  # It is never less than 64 MiB.
  flags+=("--compile_limits_max_total_memory_bytes=$((fifth > 67108864 ? fifth : 67108864))")
fi

# Slurm's signal reaches kilnd, too, wherever it hides: a grace, in which it serves on, is for clients that have its address
# and for its accounts. With what requests may take after it, it is less than the 30 seconds of Slurm's KillWait.
says() { [[ -n $1 ]] || grep -qsE "^([^#]*[[:space:],;])?$2[[:space:]]*:" "${KILN_CONFIG-}"; }
if ! says "${KILN_DRAIN_GRACE_SECONDS-}" drain_grace_seconds; then flags+=(--drain_grace_seconds=5); fi
if ! says "${KILN_DRAIN_SECONDS-}" drain_seconds; then flags+=(--drain_seconds=20); fi

asks() {
  local words=("${KILN:-kiln}" --server "$address" "$@")
  if [[ -n ${KILN_ADMIN_TOKEN_FILE-} ]]; then words+=(--token_file "$KILN_ADMIN_TOKEN_FILE"); fi
  timeout 10 "${words[@]}"
}
account() {
  local file
  mkdir -p -m 700 "$KILN_POOL/accounts" && file=$(draft "$KILN_POOL/accounts") || return
  if asks top --json >"$file"; then
    mv -fT "$file" "$KILN_POOL/accounts/$name.json"
  else
    rm -f "$file"
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

# In a session of its own: where Slurm knows a task's processes by their group, `stop` has its turn first.
setsid --wait "${KILND:-kilnd}" "${flags[@]}" &
kilnd=$!
trap stop TERM
until [[ -s $port ]]; do
  if ! kill -0 "$kilnd" 2>/dev/null; then
    wait "$kilnd"
    exit $?
  fi
  sleep 0.1
done
address=$host:$(cat "$port")
if asks health >/dev/null 2>&1; then answers=yes; fi
# Whole or not at all, as clients may look at any time.
if [[ -z $stopping ]] && file=$(draft "$KILN_POOL"); then
  echo "$address" >"$file" && chmod 644 "$file" && mv -fT "$file" "$KILN_POOL/$name"
  # `stop` may have had its turn in between, when there was nothing to take away.
  if [[ -z $stopping ]]; then
    echo "kiln: $name serves at $address"
  else
    leave
  fi
fi
# A signal ends a wait, not kilnd, whose own status is then still to be had; 127 where it was had already.
while kill -0 "$kilnd" 2>/dev/null; do
  wait "$kilnd"
  status=$?
done
wait "$kilnd"
last=$?
if ((last != 127)); then status=$last; fi
exit "$status"
