#!/bin/bash
# For Prolog= of slurm.conf, as root on each node before a job's first task: a folder of compiled programs for the job's
# user, on a disk of the node, which outlives jobs. KILN_PROGRAMS is its root; in the settings of kilnd it is
# program_cache_dir: "/var/cache/kiln/jobs/UID". It never fails, as Slurm would take the node out of service.
root=${KILN_PROGRAMS:-/var/cache/kiln/jobs}
if [[ ${SLURM_JOB_UID-} =~ ^[0-9]+$ ]]; then
  mkdir -p -m 755 "$root"
  # What somebody else has made there is left alone.
  if [[ ! -e $root/$SLURM_JOB_UID ]]; then
    install -d -m 700 -o "$SLURM_JOB_UID" "$root/$SLURM_JOB_UID"
  fi
fi
exit 0
