"""What nodes count as a whole and their ranks have a share in."""

# Counter set -> what it counts for a whole node that ranks have a share in: names that belong together, the
# first of which all have readings are taken. Of the sets the first that gives something: an uncore counter
# sees all traffic, resctrl that of its control groups.
IMC = (("dram_read_bytes", "dram_write_bytes"), ("dram_bytes",))
DRAM = {"perf_system": IMC, "likwid": IMC, "resctrl": (("dram_total_bytes",),)}
ENERGY = {"rapl": (("energy_package_joules", "energy_dram_joules"), ("energy_package_joules",))}
BUSY = {"node": (("node_cpu_busy_ns",),)}
