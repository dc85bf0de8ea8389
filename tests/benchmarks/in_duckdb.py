"""The plain sums of a report, by DuckDB over the files of the store: what a general engine takes for a part
of what a report does (no causes, no clocks, no replay, no sentences)."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import duckdb

THREADS, TIMES = 2, 3
STEPS = """
select rank, count(*), avg(end_ns - begin_ns), quantile_cont(end_ns - begin_ns, [0.5, 0.95]), sum(examples)
from read_parquet('{folder}/steps/*.parquet') group by rank order by rank
"""
PARTS = """
select rank, {sums}
from read_parquet('{folder}/steps_spans/*.parquet') spans
join read_parquet('{folder}/steps_kernels/*.parquet') kernels using (rank, step)
join read_parquet('{folder}/steps_process/*.parquet') process using (rank, step)
join read_parquet('{folder}/steps_tcp/*.parquet') tcp using (rank, step)
group by rank order by rank
"""
PHASES = ("input", "forward", "backward", "communicate")
SUMS = (
    *(f'sum("phase.{phase}.ns")' for phase in PHASES),
    *('sum("thread.run.step.count")', 'sum("thread.delay.step.count")'),
    *("sum(flops)", "sum(bytes)", "sum(kernel_ns)", "sum(calls)"),
    'sum("cpu_ns.end" - "cpu_ns.begin")',
    *('sum("tcp_sent_bytes.end" - "tcp_sent_bytes.begin")', 'sum("tcp_received_bytes.end")'),
)


def seconds(segments: Path) -> float:
    """Median. segments: the folder of a job."""
    queries = [STEPS.format(folder=segments), PARTS.format(folder=segments, sums=", ".join(SUMS))]
    taken = []
    with duckdb.connect(config={"threads": THREADS}) as database:
        for _ in range(TIMES):
            begin = time.monotonic()
            for query in queries:
                assert database.execute(query).fetchall()
            taken.append(time.monotonic() - begin)
    return statistics.median(taken)
