"""Each attack of the threat model (docs/security.md) has a test, and that test is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text()


def attacks() -> list[list[str]]:
    """who, wants to, meets, test."""
    table = PAGE.partition("## Threats")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_each_attack_names_a_test_that_there_is() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(attacks()) > 30
    for _, attack, _, tests in attacks():
        names, paths = re.findall(r"\btest_\w+\b(?!\.py)", tests), re.findall(r"tests/[\w/.]+", tests)
        assert names or paths, f"{attack}: no test"
        missing = [name for name in names if name not in defined]
        missing += [path for path in paths if not (ROOT / path).exists()]
        assert missing == [], attack
