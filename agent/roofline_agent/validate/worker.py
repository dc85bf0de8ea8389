"""The process that works, as the one that samples has it: orders go in, what was done comes back."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..calibrate.compiled.compiler import CompiledLibrary
from ..child_process import ChildProcess, bare_environment
from .child.done import Amount, Cannot, Quantities
from .errors import ValidationError
from .works import FlopForm

_PACKAGES = Path(__file__).resolve().parents[2]


class WorkDone(NamedTuple):
    """A work, in node time."""

    quantities: Quantities
    begin_ns: int
    end_ns: int


class WorkingChild:
    """To be closed. While it is waited for, `pause` is called again and again: it should take some time."""

    def __init__(
        self,
        folder: Path,
        port: int,
        pause: Callable[[], None],
        library: CompiledLibrary | None = None,
        environment: Mapping[str, str] = {},
    ) -> None:
        """Raises ValidationError where it cannot be started. environment: what it gets in addition to the
        usual."""
        command = [sys.executable, "-m", "roofline_agent.validate.child", str(folder), str(port)]
        if library:
            command += ["--library", str(library.path), "--compiler", library.compiler]
        try:
            # Without what a batch system gives us: to this node's agent it must not look like a rank.
            self._process = ChildProcess(
                command, bare_environment(**environment), _PACKAGES, takes_input=True
            )
        except OSError as error:
            raise ValidationError(f"the working process cannot be started: {error.strerror}") from error
        self.pause = pause
        self.pid = self._process.pid

    def forms(self) -> list[FlopForm]:
        """Its kernels of known FLOPs. Raises Cannot."""
        return [FlopForm(*fields) for fields in self._ask({"forms": True})["forms"]]

    def prepare(self, work: str) -> bool:
        """Whether something was done for it that counts. Raises Cannot."""
        return bool(self._ask({"prepare": work})["ready"])

    def do(self, work: str) -> WorkDone:
        """Raises Cannot."""
        answer = self._ask({"do": work})
        quantities = {name: Amount(*map(float, numbers)) for name, numbers in answer["did"].items()}
        return WorkDone(quantities, answer["begin_ns"], answer["end_ns"])

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(OSError):  # it has ended: how is said below
            self._process.write_line(json.dumps(order))
        while True:
            has_ended = self._process.returncode is not None  # asked before its last lines are read
            for line in self._process.lines_so_far():
                answer: dict[str, Any] = json.loads(line)
                if "cannot" in answer:
                    raise Cannot(answer["cannot"])
                return answer
            if has_ended:
                ended = self._process.exit
                how = ended.signal or f"status {ended.status}"
                raise ValidationError(f"the working process ended ({how}): {ended.reason}")
            self.pause()

    def close(self) -> None:
        self._process.close()
