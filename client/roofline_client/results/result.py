"""What all answers can do: become DataFrames, text, HTML and pictures."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import ClientError
from ..tables.flat import Table
from . import frames

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R")


class Shown(ABC):
    """Shows itself as the text that a command prints, and in a notebook as HTML."""

    @abstractmethod
    def text(self) -> Any:
        """What is shown, as a rich renderable."""

    def __str__(self) -> str:
        from ..tables.text import rendered

        return rendered(self.text())

    def _repr_html_(self) -> str:
        from .page import html

        return html(self.text())


class Framed(ABC):
    """Becomes DataFrames: one for each of its tables."""

    @abstractmethod
    def _tables(self) -> Mapping[str, Table]:
        """Name -> table; the first is the default."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names that `to_pandas` takes."""
        return tuple(self._tables())

    def to_pandas(self, table: str = "") -> pd.DataFrame:
        """One of `tables` as a DataFrame; without a name the first.

        Columns are named with their units ("time_seconds", "flops_per_second"; those of steps, timelines and
        raw data as in their CSV files), `.attrs["units"]` has the units as the server says them. An absent
        number is NaN, and `..._reason` next to it says why; `..._provenance` says where a number comes from.
        Raises ClientError for a table it does not have.
        """
        known = self._tables()
        return frames.frame(known[chosen(table, tuple(known))])


def chosen(table: str, known: Sequence[str]) -> str:
    """The name of a table that there is; without a name the first. Raises ClientError."""
    if table and table not in known:
        raise ClientError(f"there is no table {table!r} in it; it has {', '.join(known)}")
    return table or known[0]


class Result(Shown, Framed, Generic[R]):
    """An answer of the server. `record`: the plain record of it."""

    picture = ""  # kind of its picture, of `roofline_client.plots`

    def __init__(self, record: R) -> None:
        self.record = record

    @abstractmethod
    def _form(self) -> Any:
        """The module of `tables` with its as_text and tables, loaded when it is asked for."""

    def text(self) -> Any:
        return self._form().as_text(self.record)

    def _tables(self) -> Mapping[str, Table]:
        made: dict[str, Table] = self._form().tables(self.record)
        return made

    def plot(self, ax: Any = None) -> Any:
        """Its picture, as a new matplotlib Figure with legend and caption; or only its lines and points on
        `ax`, which is returned: one Axes, or as many as the Figure would have panels.

        Raises ClientError when there is nothing to draw; it says what is missing.
        """
        if not self.picture:
            raise ClientError("there is no picture of this; .to_pandas() has its numbers")
        from .. import plots

        if ax is None:
            return showable(plots.figure(self.picture, self._drawn()))
        plots.draw_on(ax, self.picture, self._drawn())
        return ax

    def _drawn(self) -> Any:
        """The record that the picture is drawn from."""
        return self.record

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {len(table.rows)}" for name, table in self._tables().items())
        return f"<{type(self).__name__} {parts}>"


def showable(figure: Any) -> Any:
    """A notebook shows the figure also where nobody has loaded pyplot."""

    def png() -> bytes:
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=120)
        return out.getvalue()

    figure._repr_png_ = png
    return figure
