#!/bin/sh
# TaskProlog= of slurm.conf: runs as the user before each task and batch script, which get the variables it prints.
# Ranks then mark their steps without `roofline-agent run`, but those of a job with --comment=noroofline. These have the
# path of the hooks too, which load nothing there: a training may import roofline_step from it.
job=${SLURM_HET_JOB_ID:-${SLURM_JOB_ID_HET_GROUP_0:-$SLURM_JOB_ID}}
# What was set here for the job from within which this one was submitted is not of this one.
if [ "${ROOFLINE_DISABLE_OF:-$job}" != "$job" ]; then
    unset ROOFLINE_DISABLE
    printf 'unset %s\n' ROOFLINE_DISABLE ROOFLINE_DISABLE_OF
fi
[ "${ROOFLINE_SLURM_TASKS_OF:-}" = "$job" ] || ROOFLINE_SLURM_TASKS=
case "$(cat "/run/roofline-slurm/$SLURM_JOB_ID" 2>/dev/null) ${SLURM_JOB_COMMENT:-}" in
*noroofline*)
    [ -n "${ROOFLINE_DISABLE:-}" ] || printf 'export %s\n' ROOFLINE_DISABLE=1 "ROOFLINE_DISABLE_OF=$job"
    ;;
esac
# Of the whole job: a step of it has a number of its own.
tasks=${ROOFLINE_SLURM_TASKS:-${SLURM_NTASKS:-}}
[ -z "$tasks" ] || printf 'export %s\n' "ROOFLINE_SLURM_TASKS=$tasks" "ROOFLINE_SLURM_TASKS_OF=$job"
# The folder is what `/opt/roofline/bin/roofline-agent hooks` prints, without the quarter of a second that takes.
for hooks in /opt/roofline/lib/python3*/site-packages/roofline_agent/hooks/inject; do
    case ":${PYTHONPATH:-}:" in
    *":$hooks:"*) ;;
    *) [ ! -d "$hooks" ] || echo "export PYTHONPATH=$hooks${PYTHONPATH:+:$PYTHONPATH}" ;;
    esac
done
exit 0
