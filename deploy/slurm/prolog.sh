#!/bin/bash
# For Prolog= of slurm.conf, as root on each node before a job's first task: a folder of compiled programs for the job's
# user, on a disk of the node, which outlives jobs. KILN_PROGRAMS is its root; in the settings of kilnd it is
# program_cache_dir: "/var/cache/kiln-jobs/UID". It never fails, as Slurm would take the node out of service.
#
# The root is not in /var/cache/kiln, which is the user kiln's where kilnd is installed: who may write to a folder above could
# put a link there, and have root give away what it leads to.
root=${KILN_PROGRAMS:-/var/cache/kiln-jobs}
if [[ ${SLURM_JOB_UID-} =~ ^[0-9]+$ ]]; then
  mkdir -p -m 755 "$root"
  mode=$(stat -c %a "$root")
  if [[ -L $root || ! -O $root || $((0$mode & 022)) -ne 0 ]]; then
    logger -t kiln -s "prolog: $root is a link, or others may write there: no folder of programs for $SLURM_JOB_UID"
  # What is there already is left alone.
  elif [[ ! -e $root/$SLURM_JOB_UID && ! -L $root/$SLURM_JOB_UID ]]; then
    install -d -m 700 -o "$SLURM_JOB_UID" "$root/$SLURM_JOB_UID"
  fi
fi
exit 0
