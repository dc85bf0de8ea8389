"""Errors of the agent; the command line prints one as a line and exits with its code.

AgentError                                                               exit 1
├── CalibrationError ceilings cannot be measured or read (calibrate/)    exit 1
├── ValidationError  sources cannot be compared with the truth (validate/) exit 1
├── RecordedError    a recorded file cannot be read (recorded/)          exit 1
├── ConfigError      a setting or its file is wrong                      exit 3
├── Unreachable      the server does not answer                          exit 4
└── Unavailable      a directory, socket or lock cannot be had           exit 6
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of all errors that a user sees; the text says what, why and what next."""

    exit_code = 1


class ConfigError(AgentError):
    exit_code = 3


class Unreachable(AgentError):
    exit_code = 4


class Unavailable(AgentError):
    exit_code = 6
