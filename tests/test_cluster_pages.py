"""docs/cluster/containers.md and kubernetes.md say what is there: commands, files, annotations, values."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from roofline_agent.kubernetes import patch, workloads

from .agent.kubernetes.samples import SAMPLES
from .cluster.commands_in_pages import PAGES, ROOT, lines, page
from .end_to_end.conftest import COMMANDS

NAMES = ["containers.md", "kubernetes.md"]


def ours(name: str) -> set[tuple[str, ...]]:
    """Command lines of our programs, also within those of podman and kubectl."""
    found = set()
    texts = [*lines(name), *re.findall(r"`((?:kubectl|roofline)[^`]*)`", page(name))]
    for line in texts:
        for part in re.split(r"&&|\||;", line):
            words = shlex.split(part, comments=True)
            starts = [
                at for at, word in enumerate(words) if re.fullmatch(r"roofline-(agent|server|client)", word)
            ]
            # The last: the one before may be an image or a service of that name.
            if starts and (starts[-1] == 0 or "exec" in words or words[0] == "$"):
                found.add(tuple(words[starts[-1] :]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_commands_of_ours_have_these_options(name: str) -> None:
    checked = 0
    for program, *words in ours(name):
        command, options = [], []
        for word in words:
            if word.startswith("--"):
                options.append(word)
            elif re.fullmatch(r"[a-z]+", word) and len(command) < 2 and not command[1:]:
                command.append(word)
        for cut in (2, 1, 0):  # `token new`, then `join`; a word behind may be a value
            done = subprocess.run(
                [COMMANDS / program, *command[:cut], "--help"], capture_output=True, text=True
            )
            if done.returncode == 0:
                break
        whole = subprocess.run(
            [COMMANDS / program, "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert all(option in done.stdout or option in whole for option in options), (program, words)
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize("name", NAMES)
def test_files_are_there(name: str) -> None:
    linked = re.findall(r"\]\(([^)#]+)\)", page(name))
    assert all((PAGES / link).exists() for link in linked), linked
    named = re.findall(r"deploy/[A-Za-z/.$]+", "\n".join(lines(name)))
    assert named and all((ROOT / one.replace("$role", "server")).exists() for one in named), named


def test_annotations_are_those_that_the_webhook_reads() -> None:
    said = set(
        re.findall(r"roofline/(?:record|job|role|index|tags|experiment|pythonpath)\b", page("kubernetes.md"))
    )
    assert said == {patch.RECORD, patch.PYTHON_PATH, *patch.ASKED}


def test_path_of_the_hooks_is_the_one_that_the_webhook_sets() -> None:
    assert f"PYTHONPATH={patch.HOOKS}" in page("containers.md")
    services = yaml.safe_load((ROOT / "deploy/containers/compose.yaml").read_text())["services"]
    assert services["training"]["environment"]["PYTHONPATH"] == patch.HOOKS
    copied = Path(patch.HOOKS).parents[2]
    assert f"--copy {copied}" in page("containers.md")
    # The agent's container is started again after a reboot, which has emptied /run.
    for service in ("join", "agent"):
        assert f"--copy {copied}\n" in services[service]["command"][0]
    chart = (ROOT / "deploy/kubernetes/roofline/templates/agent.yaml").read_text()
    assert f"[roofline-agent, hooks, --copy, {copied}]" in chart


def test_every_kind_is_in_the_table_and_has_a_sample() -> None:
    kinds = {sample.expected[3] for sample in SAMPLES.values()}
    assert len(workloads.READERS) <= len(kinds)
    named = {"Kubeflow": "PyTorchJob"}
    assert all(f"{named.get(kind, kind)}" in page("kubernetes.md") for kind in kinds)


def test_values_of_the_page_are_in_the_chart() -> None:
    values = yaml.safe_load((ROOT / "deploy/kubernetes/roofline/values.yaml").read_text())
    text = page("kubernetes.md")
    named = re.findall(r"\b((?:image|server|agent|webhook|podMonitor|networkPolicy)\.[A-Za-z.]+)\b", text)
    assert len(named) > 8
    for one in named:
        place = values
        for key in one.rstrip(".").split("."):
            assert key in place, one
            place = place[key]
