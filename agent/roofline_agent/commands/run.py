"""`roofline-agent run`: starts one rank so that its steps and kernels are recorded."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..ranks import tags

if TYPE_CHECKING:
    from ..run.rank_environment import Naming
    from ..run.wrapped_command import Watcher

# Imports stay inside the functions: this starts one process per rank and must be light.

MAX_RANK = 10_000_000

HELP = """Start one rank and record its steps and kernels. The rank itself is not changed.

Examples:

\b
  roofline-agent run --job 42 -- python train.py --batch 64
  roofline-agent run --ncu 100-102 -- python train.py
  roofline-agent run --trace 100-102 -- python train.py
  roofline-agent run --step-regex 'step (?P<step>[0-9]+)' -- ./train
  roofline-agent run --experiment scaling --tag nodes=4 -- python train.py

--tag and --experiment describe the job, so that jobs can be compared; give all ranks the same. A tag name
is a lower-case letter followed by up to 63 of a-z 0-9 _ . - and has one value of 1 to 256 printable
characters. The options override ROOFLINE_TAGS="nodes=4,batch=32" and ROOFLINE_EXPERIMENT. Ranks inherit
tags.

--kernels sampled, the default, records the oneDNN and MKL kernels of some steps only: the first steady ones,
then 1 in N, because each line that MKL prints costs about 50 us. N follows the measured cost, so that agent,
hooks and lines together stay below --overhead. The work of the other steps is taken from recorded steps like
them. Only PyTorch's printing can be switched on and off like this. Other frameworks and programs without
hooks print all kernels; if there are many, they are read only part of the time. With --step-regex all are
recorded.

--no-kernels leaves stdout and stderr alone. Without it they pass through the wrapper, and on a terminal the
command gets one of the wrapper's, which no key reaches: programs that read single keys (curses, less, a
shell with job control) need --no-kernels.

--step-regex is for programs without a hook. It is a Python regular expression, searched in each line of
stdout and stderr (lines end with \\n or \\r; only the first 4096 bytes count; stderr then passes through
the wrapper too). Its group `step` is the number of the step that has ended when the line is printed; an
optional group `examples` is the number of examples of each step. If the log skips steps, they are spread
evenly between two lines. A lower number begins a new count. Steps before the first line are unknown. With
this option hooks do not mark steps, and Python's output is unbuffered (PYTHONUNBUFFERED=1); for other
programs see stdbuf(1).

--ncu runs each GPU kernel of these steps several times, without changing the clocks (--clock-control none),
and sends the results when the command ends. That takes about 0.3 s per kernel: 5 minutes for a step of 1,000
kernels. If kernels are short, other steps are slower too, because ncu intercepts every launch. Steps count
from 0; step 0 cannot be profiled. With this option oneDNN and MKL kernels are not recorded. Kernels of
collectives (NCCL, RCCL, NVSHMEM, ...) are skipped, because a repeated collective would wait forever. If there
are several ranks, profile only one; the others wait for it at their next collective, perhaps longer than a
short NCCL timeout. If ncu cannot be used, a message says why and what to do, and the command runs without it.

--trace has the framework's own profiler (PyTorch: torch.profiler) record these steps, at most 20 in one
range; steps count from 0, and step 0 cannot be traced. Their kernels, or on the CPU their operators with
FLOPs from shapes, are added to the job, and the trace file is deleted. Traced steps are slower, so means and
verdicts leave them out. The training pauses while the trace is written; that counts as time between steps.
For a job that is already running use `roofline-client trace`.

--horovod-timeline makes Horovod write its timeline into an unnamed file and reads it from there: fused
collectives, negotiation, copies and cycles, as seen by rank 0. The cost: Horovod's writer spins on a core
of rank 0, which slows a training that needs all cores by a quarter and more. A job in which only some ranks
have the option hangs in its first step, because Horovod needs HOROVOD_TIMELINE in all ranks or in none. A
timeline you request yourself (HOROVOD_TIMELINE) is read without this option.

With ROOFLINE_DISABLE=1 the command runs unprofiled; `import roofline_step` still works.

Exit code: the command's own; 126 or 127 when it cannot be started.
"""

CommandArgument = Annotated[list[str], typer.Argument(help="the command that is one rank")]
JobOption = Annotated[str | None, typer.Option(help="job id of this rank")]
RoleOption = Annotated[str | None, typer.Option(help="ps, worker, chief, evaluator, horovod, ddp")]
RankOption = Annotated[int | None, typer.Option(min=0, max=MAX_RANK, help="number within the role")]
NameOption = Annotated[str | None, typer.Option(help="free name shown in reports")]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME=VALUE", help="a tag of the job; can be repeated"),
]
ExperimentOption = Annotated[str | None, typer.Option(help="the experiment the job belongs to")]
KernelsOption = Annotated[
    str,
    typer.Option(
        metavar="all|sampled|none", help="record oneDNN and MKL kernels of all steps, of a sample, or none"
    ),
]
NoKernelsOption = Annotated[bool, typer.Option("--no-kernels", help="the same as --kernels none")]
OverheadOption = Annotated[
    str, typer.Option(metavar="PERCENT", help="share of the training's time that profiling may take")
]
StepsOption = Annotated[bool, typer.Option(help="let hooks in the training's Python mark steps")]
StepRegexOption = Annotated[
    str | None,
    typer.Option(metavar="PATTERN", help="read steps from matching lines of the output"),
]
NcuOption = Annotated[
    str | None,
    typer.Option(metavar="STEPS", help="count the GPU kernels of these steps with Nsight Compute"),
]
TraceOption = Annotated[
    str | None,
    typer.Option(metavar="STEPS", help="record these steps with the framework's own profiler"),
]
TimelineOption = Annotated[
    bool,
    typer.Option(
        envvar="ROOFLINE_HOROVOD_TIMELINE", help="record what Horovod executes; give it to all ranks or none"
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="do not print which job is recorded")]


def run(
    context: typer.Context,
    command: CommandArgument,
    job: JobOption = None,
    role: RoleOption = None,
    rank: RankOption = None,
    name: NameOption = None,
    tag: TagOption = None,
    experiment: ExperimentOption = None,
    kernels: KernelsOption = "sampled",
    no_kernels: NoKernelsOption = False,
    overhead: OverheadOption = "0.5%",
    steps: StepsOption = True,
    step_regex: StepRegexOption = None,
    ncu: NcuOption = None,
    trace: TraceOption = None,
    horovod_timeline: TimelineOption = False,
    quiet: QuietOption = False,
) -> None:
    """Start one rank as HELP says."""
    from ..ranks.identity import is_disabled
    from ..run import launch, wrapper
    from ..run.rank_environment import Naming, RecordedKernels, with_hooks

    settings = context.obj.flags
    environ = {name: value for name, value in os.environ.items() if name not in (tags.TAGS, tags.EXPERIMENT)}
    environ.update(tags.as_environ(_all_tags(tag or (), experiment)))
    if settings["socket"]:
        environ["ROOFLINE_SOCKET"] = settings["socket"]
    profiled = _steps_to_profile(ncu, steps, step_regex)
    traced = _steps_to_trace(trace, ncu, steps, step_regex)
    step_pattern, watchers = _step_pattern(step_regex), _watchers(horovod_timeline)
    recorded = RecordedKernels("none" if no_kernels else _choice(kernels), _share(overhead))
    naming = Naming(job or settings["job"], role, rank, name)
    _check_names(naming)
    try:
        if is_disabled(os.environ):
            # The path too, which loads no hooks then: the training may import roofline_step from it.
            launch.become(command, {**os.environ, "PYTHONPATH": with_hooks(os.environ)})
        status = wrapper.run(
            command=command,
            naming=naming,
            environ=environ,
            notify=_notify,
            kernels=recorded,
            steps=steps,
            profiled=profiled,
            watchers=watchers,
            step_pattern=step_pattern,
            quiet=quiet,
            traced=traced,
        )
    except launch.StartError as error:
        _notify(f"roofline-agent run: {error}")
        raise typer.Exit(error.status) from None
    raise typer.Exit(launch.end_like(status))


def _choice(kernels: str) -> str:
    if kernels not in ("all", "sampled", "none"):
        raise typer.BadParameter(f"{kernels!r} is not one of: all, sampled, none", param_hint="--kernels")
    return kernels


def _share(text: str) -> float:
    """A share of the time, as "0.5%" or "0.005"."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 1e-5 <= share <= 1:
        message = f"{text!r} is not a percentage between 0.001% and 100%, such as 0.5%"
        raise typer.BadParameter(message, param_hint="--overhead")
    return share


def _check_names(naming: Naming) -> None:
    """Agents take the first characters of a longer one, so two jobs would be one, and change the name of a
    job that could not be asked for."""
    from ..ranks.askable import problem_of
    from ..ranks.identity import MAX_NAME

    for option, given in (("--job", naming.job), ("--role", naming.role), ("--name", naming.name)):
        if given is not None and len(given) > MAX_NAME:
            raise typer.BadParameter(f"more than {MAX_NAME} characters", param_hint=option)
    if problem := problem_of(naming.job or ""):
        raise typer.BadParameter(problem, param_hint="--job")
    inherited = os.environ.get("ROOFLINE_JOB", "")
    if not naming.job and (problem := problem_of(inherited)):
        _notify(f"roofline-agent run: ROOFLINE_JOB: {problem}")


def _notify(text: str) -> None:
    print(text, file=sys.stderr)


def _all_tags(options: Sequence[str], experiment: str | None) -> dict[str, str]:
    """Tags of the options, which go before those of the environment; malformed ones there are left out, and
    the user is notified."""
    try:
        by_options = tags.from_options(options, experiment)
    except tags.TagError as error:
        raise typer.BadParameter(str(error), param_hint="--tag or --experiment") from None
    inherited = tags.from_environ(os.environ)
    for problem in inherited.problems:
        _notify(f"roofline-agent run: tags: {problem}")
    return {**inherited.tags, **by_options}


def _step_pattern(text: str | None) -> re.Pattern[str] | None:
    from ..run.step_log import PatternError, compile_pattern

    try:
        return None if text is None else compile_pattern(text)
    except PatternError as error:
        raise typer.BadParameter(str(error), param_hint="--step-regex") from None


def _watchers(horovod_timeline: bool) -> list[Watcher]:
    """Of a timeline of Horovod, where there is to be one."""
    if not horovod_timeline and not os.environ.get("HOROVOD_TIMELINE"):
        return []
    from ..horovod.timeline import watch

    timeline = watch(os.environ, horovod_timeline, _notify)
    return [] if timeline is None else [timeline]


def _steps_to_profile(text: str | None, steps: bool, step_regex: str | None) -> tuple[tuple[int, int], ...]:
    return () if text is None else _marked_steps(text, steps, step_regex, "--ncu")


def _steps_to_trace(text: str | None, ncu: str | None, steps: bool, step_regex: str | None) -> str:
    from ..hooks.tracing import MOST_STEPS
    from ..ncu.steps import written

    if text is None:
        return ""
    hint = "--trace"
    if ncu is not None:
        raise typer.BadParameter("two profilers cannot record one training: leave --ncu out", param_hint=hint)
    found = _marked_steps(text, steps, step_regex, hint)
    if len(found) > 1 or found[0][1] - found[0][0] >= MOST_STEPS:
        raise typer.BadParameter(
            f"{text!r}: give one range of at most {MOST_STEPS} steps, as 100-102", param_hint=hint
        )
    return written(found)


def _marked_steps(text: str, steps: bool, step_regex: str | None, option: str) -> tuple[tuple[int, int], ...]:
    """Ranges of steps that the hooks mark, which some options switch off. Raises BadParameter."""
    from ..ncu.steps import StepsError, parse

    if step_regex is not None or not steps:
        without = "--step-regex" if step_regex is not None else "--no-steps"
        raise typer.BadParameter(f"needs the hooks that mark steps: leave {without} out", param_hint=option)
    try:
        return parse(text)
    except StepsError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
