"""What Python users begin with: `connect(address).job("42")`."""

from __future__ import annotations

from collections.abc import Sequence

from .address import check_address
from .connection import Connection
from .errors import Refused
from .newest import resolve_job
from .questions import ExperimentQuestions, JobQuestions, Steps, step_range
from .results import ComparisonResult, Jobs, Machines
from .tables.names import several

TIMEOUT_S = 60.0


def connect(server: str = "", timeout: float = TIMEOUT_S) -> Client:
    """A client of the server at HOST:PORT; "": of the one joined last, else of this machine's. Raises
    UsageError for an address that cannot be one."""
    check_address(server)
    return Client(server, timeout)


class Client(Connection):
    """Use as a context manager, or call close(). Its own methods answer with what `results` holds, those of
    `Connection` with plain records."""

    def job(self, job: str | int) -> JobQuestions:
        """What can be asked about one job; nothing is asked yet, but for "last" which one that is."""
        return JobQuestions(self, resolve_job(self, str(job)))

    def experiment(self, name: str = "", jobs: Sequence[str] = ()) -> ExperimentQuestions:
        """What can be asked about all jobs tagged experiment=NAME, or about these jobs. Raises Refused when
        neither or both are given."""
        names = several(jobs)  # columns of pandas are neither true nor false
        if bool(name) == bool(names):
            raise Refused("which jobs? give an experiment's name or jobs=[...]")
        return ExperimentQuestions(self, name, names)

    def jobs(self, newest: int = 0) -> Jobs:
        """All jobs the server knows, or so many, newest first: a list of `Job`. Raises ClientError."""
        return Jobs(super().jobs(newest))

    def compared(self, first: str | int, second: str | int, steps: Steps = "") -> ComparisonResult:
        """Two jobs side by side: what differed in their settings, and what that did. steps: as of a job's
        questions, of both. Raises NotFound for a job the server does not know, Unreachable, Refused."""
        return ComparisonResult(self.compare(str(first), str(second), *step_range(steps)))

    def machines(self, host: str = "", history: bool = False) -> Machines:
        """Machines with their ceilings, newest version first: a list of `MachineVersion`; history: also
        versions that hold no longer.

        Raises NotFound for a host the server does not know, Unreachable, Refused.
        """
        return Machines(super().machines(host, history))
