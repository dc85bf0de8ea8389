"""Why a recorded file gives nothing.

RecordedError (an AgentError)
├── NotReadable     no such file, no permission, a directory, numbers that can be read in two ways
├── NotText         binary, and of no kind that a tool here could convert
└── NotRecognised   text, but of no format that is known
"""

from __future__ import annotations

from ..errors import AgentError


class RecordedError(AgentError):
    """The text names the file, what is wrong and what to do."""


class NotReadable(RecordedError):
    pass


class NotText(RecordedError):
    pass


class NotRecognised(RecordedError):
    pass
