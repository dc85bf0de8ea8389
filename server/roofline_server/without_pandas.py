"""Keeps pandas out of a process.

Where it is installed, as for clients, Arrow imports it with the first array that it makes of one of numpy's,
to see whether that is one of pandas: 40 MB and a third of a second of CPU time, amid a sealing or a question.
The server has no use for it.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _Refusing(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is kept out of the server", name=fullname)


def keep_out() -> None:
    """To be called where a process begins."""
    sys.meta_path.insert(0, _Refusing())
