"""Files of a node's CPU time, memory and waiting."""

from __future__ import annotations

FILES = {
    "proc/stat": "cpu  100 20 30 4000 50 6 7 8 90 1\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5 0\n",
    "proc/meminfo": "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    640 kB\n",
    "proc/pressure/cpu": "some avg10=0.02 avg60=0.08 avg300=0.17 total=5289719\nfull avg10=0.00 total=7\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "proc/pressure/io": "some avg10=0.00 avg60=0.09 avg300=0.04 total=12\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2000000\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3000000\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
}
