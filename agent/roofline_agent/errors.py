"""Errors of the agent.

AgentError
├── ConfigError      a setting or its file is wrong                      exit 3
├── Unreachable      the server does not answer                          exit 4
└── Unavailable      a local thing cannot be had: directory, socket      exit 6
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of all errors the agent reports to people; the text says what, why and what next."""

    exit_code = 1


class ConfigError(AgentError):
    exit_code = 3


class Unreachable(AgentError):
    exit_code = 4


class Unavailable(AgentError):
    exit_code = 6
