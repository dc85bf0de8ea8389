"""`roofline-client mcp`."""

from __future__ import annotations

from .options import DEFAULT_SERVER, ServerOption


def mcp(server: ServerOption = DEFAULT_SERVER) -> None:
    """Let an assistant ask: MCP over stdin and stdout.

    It may ask for jobs, report, stragglers, what-if, efficiency and compare.
    """
    from ..assistants import tools

    tools(server).run("stdio")
