"""The import rules of docs/architecture.md, read from the source of every module, and two of them run."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("agent", "server", "client")
OURS = ("roofline_agent", "roofline_step", "roofline_server", "roofline_client")
HEAVY = ("numpy", "pandas", "pyarrow", "matplotlib")
WIRE = ("roofline", "grpc", "google")
ANSWERS, PHRASES, TEXTS = "roofline.answers", "roofline.phrases", "roofline.texts"
SQL = ("sqlite3", "sqlalchemy")
IO = (
    "os",
    "io",
    "pathlib",
    "socket",
    "subprocess",
    "time",
    "logging",
    "sqlite3",
    "shutil",
    "tempfile",
    "asyncio",
)
CALLS_OUT = ("open", "print", "input", "exec", "eval", "__import__")


class Import(NamedTuple):
    """One imported module, by its full name."""

    of: str  # file, from the repository's root
    module: str
    line: int
    lazy: bool  # inside a function
    typing: bool  # below `if TYPE_CHECKING:`

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.of}:{self.line} imports {self.module}"


@cache
def files() -> tuple[str, ...]:
    return tuple(sorted(str(p.relative_to(ROOT)) for f in FOLDERS for p in (ROOT / f).rglob("*.py")))


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), path)


def package(path: str) -> list[str]:
    """Names of the packages a file lies in, outermost first."""
    return list(Path(path).parent.parts[1:])


@cache
def imports(path: str) -> tuple[Import, ...]:
    found: list[Import] = []

    def look(node: ast.AST, lazy: bool, typing: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(path, a.name, node.lineno, lazy, typing) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.extend(Import(path, name, node.lineno, lazy, typing) for name in _from(path, node))
        elif isinstance(node, ast.Call) and _imports_by_name(node):
            module = node.args[0].value  # type: ignore[attr-defined]
            found.append(Import(path, str(module), node.lineno, lazy, typing))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for child in node.body:
                look(child, lazy, True)
            for child in node.orelse:
                look(child, lazy, typing)
            return
        inside = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            look(child, inside, typing)

    look(tree(path), False, False)
    return tuple(found)


def _from(path: str, node: ast.ImportFrom) -> list[str]:
    """Full names of the modules that a from-import names; of a package without a module, its members."""
    base = package(path)[: len(package(path)) - node.level + 1] if node.level else []
    stem = ".".join([*base, *([node.module] if node.module else [])])
    members = [f"{stem}.{alias.name}" for alias in node.names]
    if node.module is None:
        return members
    return sorted({member if member in modules() else stem for member in members})


def _imports_by_name(node: ast.Call) -> bool:
    """import_module("x"), __import__("x")."""
    name = ast.unparse(node.func)
    fixed = bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    return fixed and (name.endswith("import_module") or name == "__import__")


@cache
def modules() -> dict[str, str]:
    """Full name of each module -> its file."""
    found = {}
    for path in files():
        parts = Path(path).with_suffix("").parts[1:]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def under(*starts: str) -> list[str]:
    chosen = [path for path in files() if path.startswith(starts)]
    assert chosen, f"no file begins with {starts}: the rule would hold for nothing"
    return chosen


def all_imports(paths: Iterable[str]) -> list[Import]:
    return [one for path in paths for one in imports(path)]


def wrong(paths: Iterable[str], forbidden: Iterable[str]) -> list[str]:
    return [str(one) for one in all_imports(paths) if one.top in tuple(forbidden)]


def test_the_reader_of_imports_sees_all_kinds() -> None:
    modules = {one.module for path in files() for one in imports(path)}
    assert {"numpy", "grpc", "roofline_server.errors", "roofline_agent.calibrate.errors"} <= modules
    assert any(one.lazy for path in files() for one in imports(path))
    assert any(one.typing for path in files() for one in imports(path))


# -- who may know whom ------------------------------------------------------------------------------


def test_what_runs_inside_a_training_needs_the_standard_library_only() -> None:
    inside = under("agent/roofline_step/", "agent/roofline_agent/hooks/")
    ours = ("roofline_step.", "roofline_agent.hooks")
    others = [
        str(one)
        for one in all_imports(inside)
        if one.top not in sys.stdlib_module_names
        and not f"{one.module}.".startswith(ours)
        # the user's own sitecustomize, which ours makes way for
        and (Path(one.of).name, one.module) != ("sitecustomize.py", "sitecustomize")
    ]
    assert others == []


@pytest.mark.parametrize("own", FOLDERS)
def test_programs_do_not_know_each_other(own: str) -> None:
    allowed = {"agent": {"roofline_agent", "roofline_step"}}.get(own, {f"roofline_{own}"})
    assert wrong(under(f"{own}/"), set(OURS) - allowed) == []


def test_the_mark_knows_nothing_of_the_agent() -> None:
    assert wrong(under("agent/roofline_step/"), ("roofline_agent",)) == []


def test_agent_names_no_heavy_library() -> None:
    """Not even lazily: nodes have the base install, but for `import`, which takes Arrow where it is there."""
    # Never imported: calibrate --compare runs it as a child of whatever Python has numpy, to measure that.
    child = "agent/roofline_agent/calibrate/compare/gemm.py"
    by_arrow = [f"agent/roofline_agent/recorded/{name}.py" for name in ("cells", "columns")]
    assert wrong((path for path in under("agent/") if path not in (child, *by_arrow)), HEAVY) == []
    assert all(one.lazy or one.typing for path in by_arrow for one in imports(path) if one.top in HEAVY)
    assert [str(one) for one in all_imports(under("agent/")) if one.module.endswith("compare.gemm")] == []


@pytest.mark.parametrize(
    "module", ["roofline_agent.daemon", "roofline_agent.cli", "roofline_agent.run.wrapper"]
)
def test_agent_loads_no_heavy_library(module: str) -> None:
    code = f"import {module}, sys; print(sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_wrapper_loads_no_grpc() -> None:
    """One wrapper a rank: it must not cost what a gRPC library costs."""
    loaded = "sorted({'grpc', 'google.protobuf'} & set(sys.modules))"
    code = f"import roofline_agent.run.wrapper, sys; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_wire_is_known_at_the_edges_only() -> None:
    edges = (
        "agent/roofline_agent/uplink/commands.py",
        "agent/roofline_agent/uplink/encoding.py",
        "agent/roofline_agent/uplink/exporter.py",
        "agent/roofline_agent/uplink/grpc_setup.py",
        "agent/roofline_agent/netbench/",
        "server/roofline_server/access/",
        "server/roofline_server/grpc_server.py",
        "server/roofline_server/health/service.py",
        "server/roofline_server/ingest/",
        "server/roofline_server/query/",
        "server/roofline_server/serve.py",
        "client/roofline_client/channel.py",
        "client/roofline_client/connection.py",
        "client/roofline_client/answers.py",
    )
    inside = all_imports(path for path in files() if not path.startswith(edges))
    assert [str(one) for one in inside if one.top in WIRE and not _is_plain(one)] == []
    assert wrong(under(*edges), WIRE)


PLAIN = (
    "roofline.facts",
    "roofline.joining",
    "roofline.limits",
    "roofline.listening",
    "roofline.log_lines",
    "roofline.notify",
    "roofline.places",
    "roofline.renewal",
    "roofline.signals",
    PHRASES,
    TEXTS,
)


def _is_plain(one: Import) -> bool:
    """In addition to our wire: records, words and names that both sides know, what a batch may hold, how a
    server is joined, where it listens, which certificate it shows, where files are, what systemd is told,
    which signals end a service, and what is logged."""
    return _is_answer(one) or one.module in PLAIN


def _is_answer(one: Import) -> bool:
    return f"{one.module}.".startswith(f"{ANSWERS}.")


def test_answers_are_plain_records_which_agents_do_not_know() -> None:
    answers = [str(path.relative_to(ROOT)) for path in (ROOT / "proto/roofline/answers").glob("*.py")]
    outside = [one for one in all_imports(answers) if not _is_answer(one)]
    assert answers and {one.top for one in outside} <= {
        *("__future__", "collections", "enum", "functools", "math", "typing")
    }
    assert [str(one) for one in all_imports(under("agent/")) if _is_answer(one)] == []


def test_sql_is_known_to_the_store_only() -> None:
    edges = (
        "server/roofline_server/store/",
        "agent/roofline_agent/uplink/spool",  # and spool_file.py
        "agent/roofline_agent/recorded/tables/nsys_database.py",  # files of other tools
        "agent/roofline_agent/recorded/tables/rocpd_database.py",
    )
    known = [
        one for one in all_imports(path for path in files() if not path.startswith(edges)) if one.top in SQL
    ]
    # ingest/service.py may catch the store's sqlite3.Error, and nothing else of it.
    assert [str(one) for one in known if one.of != "server/roofline_server/ingest/service.py"] == []
    used = {
        ast.unparse(node)
        for node in ast.walk(tree("server/roofline_server/ingest/service.py"))
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith(("sqlite3.", "sqlalchemy."))
    }
    assert used <= {"sqlite3.Error"}


def test_spool_uses_no_other_database() -> None:
    assert wrong(under("agent/roofline_agent/uplink/spool"), ("sqlalchemy",)) == []


# -- layers -----------------------------------------------------------------------------------------

# Each part may import what is in the lines above its own, and nothing else of its package.
SERVER = (
    ("__init__", "allocator", "counts", "errors", "lean", "records", "sentences", "server_time"),
    ("clock", "data_directory", "later_release"),
    ("clock_samples",),
    ("correlate",),
    ("model",),
    ("chunks",),
    ("store",),
    ("access", "ingest", "page", "report"),
    ("health", "query"),
    ("background", "grpc_server", "listening", "upkeep"),
    ("serve",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
STORE = (
    ("__init__", "segments", "wal"),
    ("catalog", "raw_data"),
    ("intake", "usable", "view"),
    ("identity", "later", "steps", "taking"),
    ("retention",),
    ("same_names",),
    ("check", "export", "recovery", "sealing", "view_builder"),
    ("backup", "store"),
)
MODEL = (
    (
        "__init__",
        "columns",
        "efficiency",
        "evidence",
        "exits",
        "intervals",
        "queueing",
        "steady",
        "stretches",
    ),
    ("barrier", "collectives", "times"),
    ("between", "breakdown", "cost"),
    ("account", "roofline"),
    ("causes", "what_if"),
)
REPORT = (
    ("__init__", "questions"),
    ("ranks",),
    ("evidence",),
    ("ceilings", "kernels", "layers"),
    ("about",),
    ("roofline",),
    ("verdict",),
    ("breakdown", "comparison", "efficiency", "job", "waits", "what_if"),
    ("steps", "trajectory"),
    ("time_roofline",),
)


@pytest.mark.parametrize(
    "folder, order",
    [
        ("server/roofline_server", SERVER),
        ("server/roofline_server/store", STORE),
        ("server/roofline_server/model", MODEL),
        ("server/roofline_server/report", REPORT),
    ],
)
def test_layers_go_one_way(folder: str, order: tuple[tuple[str, ...], ...]) -> None:
    level = {part: at for at, parts in enumerate(order) for part in parts}
    depth = len(Path(folder).parts)
    inside = under(f"{folder}/")
    assert {Path(path).with_suffix("").parts[depth] for path in inside} == set(level)
    backwards = []
    for one in all_imports(inside):
        if (target := module_of(one)) and target.startswith(f"{folder}/"):
            own, other = (Path(path).with_suffix("").parts[depth] for path in (one.of, target))
            if own != other and level[other] >= level[own]:
                backwards.append(str(one))
    assert backwards == []


def test_causes_and_rooflines_do_not_know_each_other() -> None:
    causes = under("server/roofline_server/model/causes/")
    assert [str(one) for one in all_imports(causes) if "model.roofline" in one.module] == []


@pytest.mark.parametrize("package", OURS)
def test_no_circle_of_files(package: str) -> None:
    """Not even through imports inside functions or for types only."""
    mine = [path for path in files() if Path(path).parts[1] == package]
    targets = {path: {module_of(one) for one in imports(path)} & set(mine) - {path} for path in mine}
    TopologicalSorter(targets).prepare()  # raises CycleError, which names the circle


def module_of(one: Import) -> str | None:
    """The file that an import reads, or the package of which it takes a name; None: not ours."""
    return modules().get(one.module) or modules().get(one.module.rpartition(".")[0])


# -- what stays pure --------------------------------------------------------------------------------


def pure() -> list[str]:
    return under(
        "server/roofline_server/correlate/",
        "server/roofline_server/model/",
        "server/roofline_server/sentences/",
    )


def test_hard_logic_does_no_io() -> None:
    assert wrong(pure(), IO) == []
    calls = [
        f"{path}:{node.lineno} calls {node.func.id}"
        for path in pure()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS_OUT
    ]
    assert calls == []


def test_hard_logic_knows_only_records_and_itself() -> None:
    """Else it could reach a file through a module that does."""
    allowed = (
        "roofline_server.correlate",
        "roofline_server.model",
        "roofline_server.sentences",
        "roofline_server.records",
        "roofline_server.errors",
        ANSWERS,
        PHRASES,
        TEXTS,
    )
    ours = [one for one in all_imports(pure()) if one.top in (*OURS, "roofline")]
    assert [str(one) for one in ours if not one.module.startswith(allowed)] == []
    others = {one.top for one in all_imports(pure())} - {*OURS, "roofline"}
    assert others <= {
        "__future__",
        "collections",
        "enum",
        "functools",
        "itertools",
        "math",
        "operator",
        "re",
        "shlex",
        "statistics",
        "typing",
        "numpy",
    }


def test_sentences_know_nothing_but_sentences() -> None:
    """They format facts: what is computed or looked up stands elsewhere."""
    paths = under("server/roofline_server/sentences/")
    ours = [one for one in all_imports(paths) if one.top in (*OURS, *WIRE)]
    allowed = ("roofline_server.sentences", PHRASES, TEXTS)
    assert [str(one) for one in ours if not one.module.startswith(allowed)] == []
    others = {one.top for one in all_imports(paths)} - {*OURS, "roofline"}
    assert others <= {"__future__", "collections", "math", "shlex", "typing"}


def test_client_holds_no_formula() -> None:
    assert wrong(under("client/"), ("scipy",)) == []
    # numpy, which matplotlib brings, finds places for labels, points of a line that a browser can draw, and
    # makes text of millions of slices.
    allowed = ("matplotlib", ("plots",)), ("numpy", ("plots/", "page/", "trace/")), ("pandas", ("results/",))
    for library, only in allowed:
        users = {one.of for one in all_imports(under("client/")) if one.top == library and not one.typing}
        assert all(user.startswith(tuple(f"client/roofline_client/{o}" for o in only)) for user in users)


def test_pandas_is_loaded_when_asked_for() -> None:
    pandas = [one for one in all_imports(under("client/")) if one.top == "pandas"]
    assert pandas and all(one.lazy or one.typing for one in pandas)


# -- style ------------------------------------------------------------------------------------------


def test_only_command_lines_print_and_exit() -> None:
    found = {
        (path, ast.unparse(node.func))
        for path in files()
        if Path(path).name not in ("cli.py", "__main__.py") and "commands" not in Path(path).parts
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.exit", "exit", "quit")
    }
    assert found == set()


def test_no_module_for_this_and_that() -> None:
    names = {part for path in files() for part in Path(path).with_suffix("").parts}
    assert names & {"utils", "util", "common", "helpers", "helper", "misc"} == set()


def test_every_module_says_what_it_is() -> None:
    assert [path for path in files() if not ast.get_docstring(tree(path))] == []


@pytest.mark.parametrize("package", OURS)
def test_names_of_classes_are_unique_in_a_package(package: str) -> None:
    places: dict[str, set[str]] = {}
    for path in files():
        if Path(path).parts[1] == package:
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, set()).add(path)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_root_of_the_agent_stays_small() -> None:
    """What is new belongs in the folder of its duty."""
    assert len([path for path in under("agent/roofline_agent/") if len(Path(path).parts) == 3]) <= 12


def test_no_test_imports_from_tests() -> None:
    """What tests share is in modules of its own: doubles, builders, how a program is run."""
    imported = {
        (f"{path}:{node.lineno}", f"{node.module or ''}.{alias.name}")
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert [one for one in sorted(imported) if any(p.startswith("test_") for p in one[1].split("."))] == []
