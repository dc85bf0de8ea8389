"""`python -m tests.faults`: the fault matrix; `... kills`: campaigns of kills; `... fuzz TARGET`: odd input;
`... flips`: bit flips; `... soak`: a long run."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc

from .campaign import POINTS
from .campaigns import campaign_json, campaign_of, campaign_table, said
from .network import network_rounds
from .places import cells
from .results import PAGE, from_json, line, table, to_json, write_section
from .rounds import Outcome, disk_round
from .shim import CannotBuild, build
from .site import StillNot

RunRound = Callable[[int, Path], Awaitable[Outcome]]


def rounds_named(only: list[str], library: Path | None) -> dict[str, RunRound]:
    """All rounds whose name has one of these words in it; those that the machine allows."""
    found: dict[str, RunRound] = {}
    if library is not None:
        for cell in cells():
            found[cell.name] = lambda seed, folder, cell=cell: disk_round(cell, seed, folder, library)
    found |= network_rounds(library)
    return {name: run for name, run in found.items() if not only or any(word in name for word in only)}


def matrix(options: argparse.Namespace) -> int:
    outcomes: list[Outcome] = []
    end = time.monotonic() + options.seconds if options.seconds else float("inf")
    with tempfile.TemporaryDirectory(prefix="roofline-faults-") as name:
        library = _library(Path(name))
        chosen = rounds_named(options.only, library)
        if not chosen:
            print("no round has such a name; --list shows all", file=sys.stderr)
            return 2
        if options.list:
            print("\n".join(chosen))
            return 0
        for number in range(options.rounds):
            for at, run in enumerate(chosen.values()):
                if time.monotonic() > end:
                    break
                seed = options.seed + number
                folder = Path(options.keep or name) / f"{number}-{at}"
                outcomes.append(asyncio.run(run(seed, folder)))
                print(line(outcomes[-1]), flush=True)
                if options.json:
                    Path(options.json).write_text(to_json(outcomes))
    bad = [one for one in outcomes if not one.is_good]
    missed = [one for one in outcomes if not one.is_reached]
    print(f"{len(outcomes)} rounds, {len(bad)} failed, {len(missed)} did not reach their fault")
    return 1 if bad else 0


def _library(folder: Path) -> Path | None:
    try:
        return build(folder)
    except CannotBuild as error:
        print(f"faults of the disk and of the clock are left out: {error}", file=sys.stderr)
        return None


def write_table(options: argparse.Namespace) -> int:
    outcomes = [one for path in options.results for one in from_json(Path(path).read_text())]
    if outcomes:
        write_section(PAGE, "fault matrix", table(outcomes))
    if options.kills:
        campaigns = [campaign_of(line) for line in Path(options.kills).read_text().splitlines()]
        write_section(PAGE, "kills", campaign_table(campaigns))
    if options.soak:
        from .soak import described, soak_of

        write_section(PAGE, "soak", described(soak_of(Path(options.soak).read_text())))
    if options.flips:
        from .flips import flips_table

        write_section(PAGE, "flips", flips_table(Path(options.flips).read_text().splitlines()))
    if options.fuzz:
        from .fuzz.tally import fuzz_table, rows_in

        write_section(PAGE, "fuzz", fuzz_table(rows_in(Path(options.fuzz))))
    return 0


def fuzz_target(options: argparse.Namespace) -> int:
    from .fuzz.campaign import fuzz_all
    from .fuzz.coverage import Corpus
    from .fuzz.kept import keep
    from .fuzz.running import fuzz
    from .fuzz.tally import TALLY, add, code_version, row_of
    from .fuzz.targets import TARGETS

    if options.target == "all":
        folders = ["--keep", options.keep, "--corpus", options.corpus]
        path, goal = Path(options.json or TALLY), options.inputs or 10_000_000
        done = fuzz_all(
            path, goal, options.seconds, options.turn, folders, lambda text: print(text, flush=True)
        )
        return 0 if done else 1
    logging.disable(logging.CRITICAL)  # of the product: it may log what it refuses
    target, corpus, code = TARGETS[options.target](), Corpus(), code_version()
    place = Path(options.corpus) / options.target
    try:
        corpus.load(place, code, target.feed, options.seconds / 4)
        counts = fuzz(target, options.seconds, options.seed, options.inputs, corpus)
    finally:
        target.close()
    corpus.save(place, code)
    for failure in counts.failures:
        path = keep(Path(options.keep), failure.parts)
        print(f"{failure.kind}: {failure.place}, input kept as {path}\n{failure.text}")
    print(
        f"{options.target}: {counts.inputs:,} inputs ({counts.parts:,} parts, {counts.read:,} read, "
        f"{counts.taken:,} taken) in {counts.seconds:.0f} s, seed {options.seed}; "
        f"{counts.lines:,} lines reached; {counts.crashes} crashes, {counts.hangs} hangs, "
        f"{len(counts.failures)} different; slowest {counts.slowest_s * 1e3:.0f} ms; "
        f"memory +{counts.grown_bytes / 1e6:.0f} MB",
        flush=True,
    )
    if options.json:
        add(Path(options.json), row_of(options.target, code, counts))
    return 1 if counts.failures else 0


def kills(options: argparse.Namespace) -> int:
    from .campaign import Kills
    from .repairs import REPAIR, Repairs

    good = True
    with tempfile.TemporaryDirectory(prefix="roofline-kills-") as name:
        library = _library(Path(name))
        if library is None:
            return 2
        for number, point in enumerate(options.point or (*POINTS, REPAIR)):
            folder = Path(options.keep or name) / f"{number}-{point}"
            kind = Repairs if point == REPAIR else Kills
            campaign = kind(point, folder, library, options.seed, options.power_cuts, not options.fresh)
            seconds = 60 * options.minutes if options.minutes else float("inf")
            result = asyncio.run(campaign.run(options.kills, seconds, lambda text: print(text, flush=True)))
            print(said(result), flush=True)
            good = good and result.is_good
            if options.json:
                with open(options.json, "a") as file:
                    file.write(campaign_json(result) + "\n")
    return 0 if good else 1


def flips(options: argparse.Namespace) -> int:
    from .flips import SILENT, flips_table, run_flips

    logging.getLogger().addHandler(logging.NullHandler())  # what the product logs is counted, not shown
    rows = run_flips(options.seed, options.flips, lambda text: print(text, flush=True))
    lines = [json.dumps(row) for row in rows]
    print("\n".join(flips_table(lines)))
    if options.json:
        with open(options.json, "a") as file:
            file.writelines(f"{line}\n" for line in lines)
    return 1 if any(row.get(SILENT) or row.get("failed") for row in rows) else 0


def soak(options: argparse.Namespace) -> int:
    from .soak import described, run_soak, soak_json

    with tempfile.TemporaryDirectory(prefix="roofline-soak-") as name:
        library = _library(Path(name))
        folder = Path(options.keep or name) / "soak"
        try:
            result = run_soak(
                folder,
                library,
                60 * options.minutes,
                options.rows_per_second,
                options.every,
                options.seed,
                lambda text: print(text, flush=True),
            )
        except (StillNot, grpc.RpcError) as error:
            print(f"the soak failed, seed {options.seed}: {error}", file=sys.stderr)
            return 1
    lines = described(result)
    print("\n".join(lines))
    if options.json:
        Path(options.json).write_text(soak_json(result))
    return 0 if result.is_good else 1


def main() -> int:
    options = parsed(sys.argv[1:])
    # So that the servers and agents of a round end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return int(options.work(options))


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    _add_matrix(commands.add_parser("matrix", help="fault x place, with real processes (the default)"))
    _add_kills(commands.add_parser("kills", help="one data directory, killed again and again"))
    _add_fuzz(commands.add_parser("fuzz", help="mutated input for one target"))
    _add_flips(commands.add_parser("flips", help="single bits flipped in every file of a data directory"))
    _add_soak(commands.add_parser("soak", help="a steady load with random faults, for minutes or hours"))
    tables = commands.add_parser("table", help="write tables of docs/reliability.md from files of --json")
    tables.add_argument("results", nargs="*", metavar="FILE", help="of the matrix")
    tables.add_argument("--kills", metavar="FILE", help="of campaigns of kills")
    tables.add_argument("--fuzz", metavar="FILE", help="of fuzz targets")
    tables.add_argument("--soak", metavar="FILE", help="of a soak")
    tables.add_argument("--flips", metavar="FILE", help="of flipped bits")
    tables.set_defaults(work=write_table)
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["matrix", *arguments]
    return parser.parse_args(arguments)


def _add_matrix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="rounds with such a name")
    parser.add_argument("--rounds", type=int, default=1, help="how often all of them are run [1]")
    parser.add_argument("--seconds", type=float, help="begin no round after so long")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the first rounds")
    parser.add_argument("--json", metavar="FILE", help="write all outcomes there")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the folders of all rounds there")
    parser.add_argument("--list", action="store_true", help="show the names of all rounds")
    parser.set_defaults(work=matrix)


def _add_kills(parser: argparse.ArgumentParser) -> None:
    points = (*POINTS, "repair")
    parser.add_argument(
        "--point", nargs="*", choices=points, metavar="POINT", help=f"{', '.join(points)} [all]"
    )
    parser.add_argument("--kills", type=int, default=300, help="at each point [300]")
    parser.add_argument("--minutes", type=float, help="at each point, at most")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--power-cuts", action="store_true", help="each kill takes what was not synced too")
    parser.add_argument("--fresh", action="store_true", help="start each server afresh instead of forking it")
    parser.add_argument("--json", metavar="FILE", help="add a line with the result to it")
    parser.add_argument("--keep", metavar="FOLDER", help="keep data and logs there")
    parser.set_defaults(work=kills)


def _add_fuzz(parser: argparse.ArgumentParser) -> None:
    names = ("all", "ingest", "stored", "marks", "recorded", "questions", "http", "joining")
    parser.add_argument("target", choices=names, help="all: in turns, until --inputs are counted in --json")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, at most [60]")
    parser.add_argument("--inputs", type=int, help="at most [all: until 10,000,000 parts were read]")
    parser.add_argument("--turn", type=float, default=120.0, help="of all: seconds of a target at once [120]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument(
        "--json", metavar="FILE", help="add the counts to it [all: tests/data/fuzz/tally.jsonl]"
    )
    parser.add_argument("--keep", metavar="FOLDER", default="fuzz-failures", help="for inputs that fail")
    parser.add_argument(
        "--corpus", metavar="FOLDER", default="fuzz-corpus", help="for inputs that reach more"
    )
    parser.set_defaults(work=fuzz_target)


def _add_flips(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flips", type=int, default=1000, help="how many bits [1000]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--json", metavar="FILE", help="add lines with the counts to it")
    parser.set_defaults(work=flips)


def _add_soak(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=60.0, help="how long [60]")
    parser.add_argument("--rows-per-second", type=float, default=2000.0, help="[2000]")
    parser.add_argument("--every", type=float, default=15.0, help="mean seconds between faults, 0: none [15]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep", metavar="FOLDER", help="keep data and log there")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    parser.set_defaults(work=soak)


if __name__ == "__main__":
    sys.exit(main())
