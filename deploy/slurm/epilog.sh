#!/bin/sh
# Epilog= of slurm.conf: runs as root on each node after a job. That of the job's first node reports how it ended.
# Slurm gives no PATH. The shell has one of its own, but the agent, which asks scontrol too, would have another.
export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
kept=/run/roofline-slurm/$SLURM_JOB_ID
ROOFLINE_SLURM_RESTARTS=$(sed -n 1p "$kept" 2>/dev/null)
export ROOFLINE_SLURM_RESTARTS
rm -f "$kept"
first=$(scontrol show hostnames "$SLURM_NODELIST" 2>/dev/null | sed -n 1p)
if [ "${first:-$SLURMD_NODENAME}" = "$SLURMD_NODENAME" ]; then
    # Nobody reads what an epilog prints: `journalctl -t roofline-epilog` shows what has failed.
    {
        timeout 10 /opt/roofline/bin/roofline-agent --socket /run/roofline/agent.sock slurm-epilog 2>&1 >/dev/null ||
            echo "roofline-agent slurm-epilog ended with $?: how job $SLURM_JOB_ID ended may not be recorded"
    } | logger -t roofline-epilog 2>/dev/null
fi
exit 0 # another exit code drains the node
