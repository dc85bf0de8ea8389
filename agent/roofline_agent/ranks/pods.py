"""What Kubernetes says of the ranks in a pod: in variables that the webhook has set (kubernetes/patch.py).

No I/O. A launcher inside the pod knows better which rank is which, as a pod may hold eight ranks of torchrun;
the pod's index is that of a process which marks steps and which no launcher has named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

POD = "ROOFLINE_POD"
NAMESPACE = "ROOFLINE_POD_NAMESPACE"
KIND = "ROOFLINE_POD_KIND"  # of what the job is, as JobSet
JOB = "ROOFLINE_POD_JOB"  # NAMESPACE.NAME: two namespaces may have jobs of one name
ROLE = "ROOFLINE_POD_ROLE"
INDEX = "ROOFLINE_POD_INDEX"
PREFIX = "kubernetes."  # how the names of tags begin that Kubernetes gives
MAX_VALUE = 256  # characters

_ATTRIBUTES = {"namespace": NAMESPACE, "kind": KIND, "job": JOB}


class PodPlace(NamedTuple):
    """The place of a pod in its job; index None: Kubernetes does not number it."""

    role: str
    index: int | None  # type: ignore[assignment]  # the field's word, though tuples have a method of that name


def place_of(environ: Mapping[str, str]) -> PodPlace | None:
    """None: this is in no pod that was given one."""
    if not environ.get(JOB):
        return None
    number = environ.get(INDEX, "")
    known = number.isascii() and number.isdigit() and len(number) < 10
    return PodPlace(environ.get(ROLE) or "worker", int(number) if known else None)


def attributes(environ: Mapping[str, str]) -> dict[str, str]:
    """A job's attributes as tags, by the variables of one of its processes; none of what runs in no pod."""
    found = {name: environ.get(variable, "") for name, variable in _ATTRIBUTES.items()}
    return {
        f"{PREFIX}{name}": text[:MAX_VALUE] for name, text in found.items() if text and text.isprintable()
    }
