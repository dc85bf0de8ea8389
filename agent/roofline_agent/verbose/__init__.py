"""Kernel records from the verbose lines that oneDNN and MKL print: shape, time, FLOPs and least traffic.

Everything here is a pure function of text, or of a byte stream; nothing reads a clock, a file or a process.
"""

from __future__ import annotations

from ..records import KernelCall, KernelShape, TimedCall
from .stream import KernelStretch, VerboseFilter

__all__ = ["KernelCall", "KernelShape", "KernelStretch", "TimedCall", "VerboseFilter"]
