#!/bin/sh
# Prolog= of slurm.conf: runs as root on each node before a job, and keeps for task_prolog.sh and epilog.sh what
# Slurm says to nobody else: the job's comment, and how often it had been started again.
umask 022
mkdir -p /run/roofline-slurm &&
    printf '%s\n%s\n' "${SLURM_JOB_RESTART_COUNT:-}" "${SLURM_JOB_COMMENT:-}" >"/run/roofline-slurm/$SLURM_JOB_ID"
exit 0 # another exit code drains the node
