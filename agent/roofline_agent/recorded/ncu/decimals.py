"""Whether the numbers of a file have decimal commas, as ncu prints them under the locale of some users.

Most numbers show it, "12.5" and "12,50" do, and most launches have such a number; "1,234" and "1.234" do not.
So each launch is looked at before it is read until one shows it, and until then there are decimal points.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import NotReadable
from .values import has_decimal_commas

_COMMA = re.compile(
    r"[-+]?(?:\d+,(?:\d{1,2}|\d{4,})|(?:0\d*|\d{4,}),\d{3}"
    r"|\d{1,3}(?:[.'\u00a0\u202f ]\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,})"
)
_POINT = re.compile(
    r"[-+]?(?:\d+\.(?:\d{1,2}|\d{4,})|(?:0\d*|\d{4,})\.\d{3}|\d+\.\d+[eE][-+]?\d+"
    r"|\d{1,3}(?:[,'\u00a0\u202f ]\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,})"
)
_EITHER = re.compile(r"[-+]?\d{1,3}[.,]\d{3}")  # groups, or decimals
_LONGEST = 64  # characters of a number


class Decimals:
    """Whether one file has decimal commas."""

    def __init__(self, file: str, head: str) -> None:
        self.are_commas = self.are_known = has_decimal_commas(head)
        self._file = file
        self._doubtful = ""  # the first number that was read and that does not show it

    def look_at(self, cells: Iterable[str], line: int) -> None:
        """Cells that are about to be read, from this line on.

        Raises NotReadable if they show decimal commas, and numbers before them may have been misread.
        """
        with_comma = doubtful = ""
        for cell in cells:
            if "," not in cell and "." not in cell:
                continue
            text = cell.partition(" (")[0].partition("%")[0].strip()[: _LONGEST + 1]
            if _POINT.fullmatch(text):
                self.are_known = True
                return
            if not with_comma and _COMMA.fullmatch(text):
                with_comma = text
            elif not doubtful and _EITHER.fullmatch(text):
                doubtful = text
        if with_comma and self._doubtful:
            raise NotReadable(
                f"{self._file}: line {line}: {with_comma} has a decimal comma, and it is not known whether "
                f"numbers before it have, such as {self._doubtful}: print the report again with LC_ALL=C"
            )
        self.are_commas = self.are_known = bool(with_comma)
        self._doubtful = self._doubtful or doubtful
