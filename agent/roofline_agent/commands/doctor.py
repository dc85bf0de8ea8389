"""`roofline-agent doctor`: what works on this node, and if not, why and what to do."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from .options import check_format, load_config


def doctor(
    context: typer.Context,
    output: Annotated[str, typer.Option("--format", help="text or json")] = "text",
) -> None:
    """Show what can be measured here, and why the rest cannot.

    For each source: whether it works; if not, why and what to do; and what it adds to a report.

    Example:

    \b
      roofline-agent doctor --format json | jq '.[] | select(.works | not)'

    Exit code: 0 when samples can be taken, else 1.
    """
    from .findings import examine

    check_format(output)
    findings = examine(load_config(context), os.environ)
    if output == "json":
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        width = max(len(finding.what) for finding in findings) + 1
        indent = " " * (width + 6)
        for finding in findings:
            mark, advice, fills = ("ok ", "more", "fills") if finding.works else ("off", "fix", "would fill")
            print(f"{mark}  {finding.what:<{width}} {finding.text}")
            if finding.advice:
                print(f"{indent}{advice}: {finding.advice}")
            if finding.fills:
                print(f"{indent}{fills}: {finding.fills}")
    if not any(finding.works for finding in findings if finding.what.startswith("source ")):
        raise typer.Exit(1)
