#!/bin/bash
# For Epilog= of slurm.conf, as root on each node after a job's last task: a server that was killed has left its address,
# which no client is to find. KILN_POOL is the pool's folder. It never fails, as Slurm would take the node out of service.
pool=${KILN_POOL:-/shared/kiln/pool}
if [[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ && -d $pool ]]; then
  # Of this node alone: a job may go on without it.
  node=${SLURMD_NODENAME:-$(hostname -s)}
  rm -f "$pool/$SLURM_JOB_ID.$node".[0-9]* "$pool/.$SLURM_JOB_ID.$node".[0-9]*
fi
exit 0
