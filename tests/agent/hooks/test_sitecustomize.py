"""Hooks in every Python process by PYTHONPATH alone: cheap, silent, out of everybody's way."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import textwrap
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_agent.hooks import HOOKS

from tests.fakes import AGENT, FakeAgent, clean_environ

PYTHON = sys.executable
INJECT = Path(__file__).parents[3] / "agent/roofline_agent/hooks/inject"
LOADED = "import sys; print('_roofline_hooks' in sys.modules, 'roofline_step' in sys.modules)"
FAKE_TORCH = {"torch/__init__.py": "", "torch/optim/__init__.py": "", "torch/optim/optimizer.py": "x = 1\n"}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return clean_environ(ROOFLINE_SOCKET=str(tmp_path / "agent.sock"), PYTHONPATH=str(INJECT))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FakeAgent]:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        yield agent


def python(environ: dict[str, str], code: str, *flags: str, program: str = PYTHON) -> list[str]:
    """What code prints, in lines; it must end well and say nothing on stderr."""
    done = subprocess.run(
        [program, *flags, "-W", "error", "-c", code], env=environ, capture_output=True, timeout=60, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def path_with(environ: dict[str, str], *folders: object) -> dict[str, str]:
    return {**environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_folder_is_what_the_command_prints() -> None:
    done = subprocess.run([*AGENT, "hooks"], capture_output=True, timeout=60, text=True)
    assert (done.returncode, done.stdout) == (0, f"{INJECT}\n")


def test_every_hooked_framework_is_awaited() -> None:
    tree = ast.parse((INJECT / "sitecustomize.py").read_text())
    (awaited,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "AWAITED"
    ]
    assert {name.partition(".")[0] for name in HOOKS} < set(awaited)


def test_process_that_imports_no_framework_loads_and_connects_nothing(
    environ: dict[str, str], agent: FakeAgent
) -> None:
    modules = "import sys; print(*sorted(sys.modules))"
    plain = {k: v for k, v in environ.items() if k != "PYTHONPATH"}
    added = set(python(environ, modules)[0].split()) - set(python(plain, modules)[0].split())
    assert added <= {"sitecustomize", "__future__"}
    assert python(environ, LOADED) == ["False False"]
    assert agent.poll(0.2) == [] and not agent.peers


def test_hooks_load_with_the_framework(environ: dict[str, str], tmp_path: Path, agent: FakeAgent) -> None:
    write(tmp_path, FAKE_TORCH)
    code = f"import torch.optim.optimizer; {LOADED}"
    assert python(path_with(environ, INJECT, tmp_path), code) == ["True True"]
    assert any(b"hook.torch_optimizer=failed" in data for _, data in agent.poll(0.5))


def test_hook_of_a_top_level_module_is_installed_on_its_first_import(
    environ: dict[str, str], tmp_path: Path, agent: FakeAgent
) -> None:
    hooks = tmp_path / "agent" / "hooks"
    shutil.copytree(INJECT.parent, hooks)
    text = (hooks / "__init__.py").read_text()
    (hooks / "__init__.py").write_text(text.replace("HOOKS = {", 'HOOKS = {\n    "torch": "torch.module",'))
    write(tmp_path, FAKE_TORCH)
    python(path_with(environ, hooks / "inject", tmp_path), "import torch")
    assert any(b"hook.torch_module=failed" in data for _, data in agent.poll(0.5))


def test_framework_without_an_agent_is_as_if_alone(environ: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, FAKE_TORCH)
    code = "import torch.optim.optimizer as t; print(t.x, t.__spec__.name)"
    assert python(path_with(environ, INJECT, tmp_path), code) == ["1 torch.optim.optimizer"]


def test_training_that_marks_finds_the_mark(environ: dict[str, str], agent: FakeAgent) -> None:
    code = """
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p and "agent" not in p]  # it is not installed
import roofline_step, roofline_step._sender
roofline_step.mark(3)
module = sys.modules["roofline_step"]
print(module is roofline_step, module.__spec__.name, bool(module.__file__))
"""
    assert python(environ, code) == ["True roofline_step True"]


@pytest.mark.parametrize("installed", [True, False])
def test_hooks_and_training_have_one_mark(environ: dict[str, str], installed: bool) -> None:
    """Else the hooks would not hear that the training marks its steps itself."""
    code = f"""
import sys
if not {installed}: sys.path[:] = [p for p in sys.path if "site-packages" not in p and "agent" not in p]
import roofline_step
first = roofline_step
import roofline_step
(watcher,) = [finder for finder in sys.meta_path if type(finder).__name__ == "_ImportWatcher"]
print(watcher._marker._step is roofline_step is first is sys.modules["roofline_step"])
print(roofline_step.__spec__.name, type(roofline_step.__loader__).__name__)
"""
    assert python(environ, code) == ["True", "roofline_step SourceFileLoader"]


def test_marks_of_a_training_arrive(environ: dict[str, str], agent: FakeAgent) -> None:
    python(environ, "import roofline_step; roofline_step.mark(3)")
    assert any(data[:1] == b"M" for _, data in agent.poll(0.5))


@pytest.mark.parametrize("value", ["1", "yes"])
def test_switched_off(environ: dict[str, str], tmp_path: Path, value: str) -> None:
    write(tmp_path, {**FAKE_TORCH, "sitecustomize.py": "print('mine')\n"})
    off = {**path_with(environ, INJECT, tmp_path), "ROOFLINE_DISABLE": value}
    assert python(off, f"import torch.optim.optimizer; {LOADED}") == ["mine", "False False"]


@pytest.mark.parametrize("value", ["0", ""])
def test_an_empty_switch_is_none(environ: dict[str, str], tmp_path: Path, value: str) -> None:
    write(tmp_path, FAKE_TORCH)
    on = {**path_with(environ, INJECT, tmp_path), "ROOFLINE_DISABLE": value}
    assert python(on, f"import torch.optim.optimizer; {LOADED}") != ["False False"]


def test_training_that_marks_its_steps_runs_where_it_is_switched_off(
    environ: dict[str, str], tmp_path: Path, agent: FakeAgent
) -> None:
    """Also where roofline_step is not installed; where it is, that one is taken."""
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    program = str(tmp_path / "venv/bin/python")
    off = {**environ, "ROOFLINE_DISABLE": "1"}
    code = "import roofline_step; roofline_step.mark(3); print(len(roofline_step.__path__))"
    assert python(off, code, program=program) == ["1"]
    assert agent.poll(0.2) == []
    write(tmp_path / "own", {"roofline_step.py": "mark = print\n"})
    found = python(path_with(off, INJECT, tmp_path / "own"), "import roofline_step; roofline_step.mark(3)")
    assert found == ["3"]


@pytest.mark.parametrize("flag", ["-S", "-E", "-I"])
def test_python_that_ignores_the_environment_loads_no_hooks(environ: dict[str, str], flag: str) -> None:
    code = "import sys; print([f for f in sys.meta_path if 'Roofline' in type(f).__name__])"
    assert python(environ, code, flag) == ["[]"]
    assert "Roofline" in python(environ, code)[0]


def test_sitecustomize_behind_ours_is_run_once(environ: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {"sitecustomize.py": "print('mine', __file__)\n"})
    code = "import sys, sitecustomize; print(sitecustomize.__file__, [p for p in sys.path if 'inject' in p])"
    mine = f"{tmp_path}/sitecustomize.py"
    assert python(path_with(environ, INJECT, tmp_path), code) == [f"mine {mine}", f"{mine} []"]


def test_folder_twice_on_the_path_is_once(environ: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {"own/sitecustomize.py": "print('mine')\n"})
    (tmp_path / "link").symlink_to(INJECT)
    code = "import sys; print(sum('Roofline' in type(f).__name__ for f in sys.meta_path), *sys.path[1:3])"
    path = (tmp_path / "link", INJECT, INJECT, f"{INJECT}/", tmp_path / "own")
    assert python(path_with(environ, *path), code)[0] == "mine"
    assert python(path_with(environ, *path), code)[1].split()[:2] == ["1", f"{tmp_path}/own"]


def test_virtual_environment(environ: dict[str, str], tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    code = f"import roofline_step; {LOADED}"
    assert python(environ, code, program=str(tmp_path / "venv/bin/python")) == ["True True"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_mark_for_themselves(
    environ: dict[str, str], tmp_path: Path, agent: FakeAgent, method: str
) -> None:
    program = write(
        tmp_path,
        {
            "train.py": f"""
import multiprocessing, os, sys

def work(k):
    import roofline_step
    roofline_step.mark(k)
    return os.getpid(), "_roofline_hooks" in sys.modules

if __name__ == "__main__":
    import roofline_step
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        print(*pool.apply(work, (7,)), flush=True)
"""
        },
    )
    done = subprocess.run(
        [PYTHON, str(program / "train.py")], env=environ, capture_output=True, timeout=60, text=True
    )
    pid, loaded = done.stdout.split()
    assert loaded == "True"
    assert int(pid) in [sender for sender, data in agent.poll(0.5) if data[:1] == b"M"]


def test_broken_hooks_are_not_noticed(environ: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {**FAKE_TORCH, "roofline_step.py": "raise RuntimeError\n"})
    code = "import torch.optim.optimizer as t; print(t.x)"
    assert python(path_with(environ, INJECT, tmp_path), code) == ["1"]


def test_broken_hooks_are_shown_to_who_looks_for_the_fault(environ: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {**FAKE_TORCH, "roofline_step.py": "raise RuntimeError('of an old release')\n"})
    variables = {**path_with(environ, INJECT, tmp_path), "ROOFLINE_DEBUG": "1"}
    done = subprocess.run(
        [PYTHON, "-c", "import torch"], env=variables, capture_output=True, timeout=60, text=True
    )
    assert done.returncode == 0
    assert "RuntimeError: of an old release" in done.stderr


def test_what_a_handler_raises_while_the_hooks_are_loaded_goes_on(
    environ: dict[str, str], tmp_path: Path
) -> None:
    code = """
        import signal, sys
        def expired(number, frame):
            raise TimeoutError
        signal.signal(signal.SIGALRM, expired)
        class AtHooks:  # the signal comes once these are looked for
            def find_spec(self, name, path=None, target=None):
                if name == "_roofline_hooks.marker":
                    signal.raise_signal(signal.SIGALRM)
        sys.meta_path.insert(0, AtHooks())
        try:
            import torch
        except TimeoutError:
            print("expired")
        """
    folders = path_with(environ, INJECT, write(tmp_path, FAKE_TORCH))
    assert python(folders, textwrap.dedent(code)) == ["expired"]


def test_thread_whose_import_comes_second_leaves_the_hooks_of_the_first_alone(
    environ: dict[str, str], tmp_path: Path
) -> None:
    folders = path_with(environ, INJECT, write(tmp_path / "modules", FAKE_TORCH))
    code = """
        import sys
        (waiting,) = [f for f in sys.meta_path if type(f).__name__ == "_RooflineWaiting"]
        import torch.optim.optimizer
        hooks = sys.modules["_roofline_hooks"]
        class AsItWas(list):
            def __contains__(self, finder): return True  # both looked before either of them went
        sys.meta_path = AsItWas(sys.meta_path)
        print(waiting.find_spec("tensorflow"), sys.modules.get("_roofline_hooks") is hooks)
        """
    assert python(folders, textwrap.dedent(code)) == ["None True"]


def test_copy_of_the_hooks_works_where_roofline_is_not_installed(tmp_path: Path) -> None:
    """Twice, as when an agent starts again; and read by all users, whatever the agent's umask."""
    place = tmp_path / "run" / "hooks"
    for _ in range(2):
        command = ["sh", "-c", 'umask 077; exec "$@"', "-", *AGENT, "hooks", "--copy", str(place)]
        done = subprocess.run(command, capture_output=True, timeout=60, text=True)
        assert done.returncode == 0, done.stderr
    assert [path.name for path in place.parent.iterdir()] == ["hooks"]
    folder = Path(done.stdout.strip())
    assert folder.is_relative_to(place)
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in place.rglob("*"))
    code = """
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p and "agent" not in p]  # it is not installed
import roofline_step
print(roofline_step.__file__)
"""
    assert Path(python({"PYTHONPATH": str(folder)}, code)[0]).is_relative_to(place)


def test_copy_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "hooks"
    done = subprocess.run([*AGENT, "hooks", "--copy", str(place)], capture_output=True, timeout=60, text=True)
    assert done.returncode == 6 and str(place) in done.stderr


@pytest.mark.parametrize("named", ["project", "link", "project/.", "project/thesis.tex", "/"])
def test_copy_deletes_nothing_of_the_users(named: str, tmp_path: Path) -> None:
    write(tmp_path / "project", {"thesis.tex": "mine"})
    (tmp_path / "link").symlink_to("project")
    command = [*AGENT, "hooks", "--copy", str(tmp_path / named)]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert done.returncode == 6 and "no copy of the hooks" in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link", "project", "thesis.tex"]


def test_copy_goes_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        command = [*AGENT, "hooks", "--copy", str(tmp_path / "link")]
        assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "roofline_step").is_dir()


def test_it_is_written_in_what_old_pythons_know() -> None:
    source = (INJECT / "sitecustomize.py").read_text("ascii")
    tree = ast.parse(source)
    newer = (ast.AnnAssign, ast.JoinedStr, ast.Starred, ast.NamedExpr, ast.Nonlocal, ast.YieldFrom, ast.Await)
    for node in ast.walk(tree):
        assert not isinstance(node, newer), ast.unparse(node)
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
            assert not node.args.kwonlyargs and not node.args.posonlyargs
            assert not any(one.annotation for one in node.args.args)
        assert not isinstance(node, ast.ImportFrom) or node.module == "typing"
        assert not isinstance(node, ast.Raise) or node.cause is None
