#!/bin/bash
# For Epilog= of slurm.conf, as root on each node after a job's last task: a server that was killed has left its address,
# which no client is to find. KILN_POOL is the pool's folder. It never fails, as Slurm would take the node out of service.
pool=${KILN_POOL:-/shared/kiln/pool}
if [[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ && -d $pool ]]; then
  # Of this node alone: a job may go on without it.
  node=${SLURMD_NODENAME:-$(hostname -s)}
  # As the job's user: NFS lets root do nothing (root_squash).
  as=()
  if ((EUID == 0)) && [[ ${SLURM_JOB_UID-} =~ ^[1-9][0-9]*$ ]]; then
    as=(setpriv "--reuid=$SLURM_JOB_UID" "--regid=$(id -g "$SLURM_JOB_UID" || echo "$SLURM_JOB_UID")" --clear-groups)
  fi
  # Names with a dot first are drafts.
  for file in "$pool/$SLURM_JOB_ID.$node".[0-9]* "$pool"{,/accounts}/".$SLURM_JOB_ID.$node".[0-9]*; do
    [[ -e $file || -L $file ]] || continue
    # Slurm keeps nothing of what an epilog says.
    why=$("${as[@]}" rm -f "$file" 2>&1) || logger -t kiln -s "epilog: $file stays, and clients find it: $why"
  done
fi
exit 0
