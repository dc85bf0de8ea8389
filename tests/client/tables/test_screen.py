"""The first screen: never more than 30 lines of 100 columns, the verdict on top, and nothing left open."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from roofline.answers.report import Report
from roofline.answers.verdict import LeftOut
from roofline_client.results.page import document
from roofline_client.tables import screen
from roofline_client.tables.labelled import Labelled, Paragraph, wrapped
from roofline_client.tables.markdown import markdown
from roofline_client.tables.text import rendered

from ..reports import absent, rank, report, roof, seen
from ..verdicts import account, finding, healthy, unknown, verdict

SEVERAL = [rank("ps:0"), rank("ps:1"), rank("worker:0"), rank("worker:1"), rank("chief:0")]


def made(**more: Any) -> Report:
    return report(SEVERAL, verdict=verdict(**more))


def lines(found: Report) -> list[str]:
    return rendered(screen.as_text(found)).splitlines()


def line(found: Report, begin: str) -> str:
    return next(one for one in lines(found) if one.strip().startswith(begin))


def test_bottleneck_its_cost_and_what_fixing_it_gives() -> None:
    shown = lines(made())
    at = next(number for number, one in enumerate(shown) if one.startswith("BOTTLENECK"))
    assert shown[0].startswith("Job 42       finished (exit 0)   12 s   2 PS + 2 workers + 1 chief")
    assert shown[1] == "Throughput   404 examples/s   step 93 ms median, 157 ms mean, 310 ms p95"
    assert shown[2] == "  left out   10 warm-up steps, 4.1 s"
    assert shown[at].split("  ")[-1].strip() == "confidence: high" and len(shown[at]) == 100
    assert shown[at + 1] == "  costs      76.1 ms a step (48% of the step)"
    assert shown[at + 2] == "  if fixed   81 ms a step (78 to 90 ms), about 780 examples/s"
    assert shown[at + 5].startswith("  try        1. ") and shown[at + 6].startswith("             2. ")


@pytest.mark.parametrize(
    "found", [made(), report(SEVERAL, verdict=healthy()), report(SEVERAL, verdict=unknown())]
)
def test_brief_is_the_verdict_in_ten_lines(found: Report) -> None:
    shown = rendered(screen.in_brief(found)).splitlines()
    assert len(shown) <= 10 and all(cell_len(one) <= 100 for one in shown)
    assert shown[0].startswith("Job 42 ") and shown[-1].endswith("roofline-client report 42")
    assert any(one.startswith(("BOTTLENECK", "VERDICT")) for one in shown)


def test_brief_of_much_is_ten_lines_too() -> None:
    much = finding(evidence=["word " * 60] * 5, tries=["word " * 60] * 5, why="word " * 60)
    shown = rendered(screen.in_brief(made(bottleneck=much, also=[much] * 5))).splitlines()
    assert len(shown) <= 10, shown


def test_time_between_steps_is_said_where_it_is_much_and_whose_it_is() -> None:
    evaluates, other = rank("worker:1"), rank("worker:0")
    for metric, value in {"share": 0.424, "evaluation.count": 19.0, "other.count": 1.0}.items():
        evaluates.summary.values[f"between.{metric}"] = seen(value, "1")
    for kind, seconds in {"evaluation": 0.163, "other": 0.5}.items():
        evaluates.summary.values[f"between.{kind}.time"] = seen(seconds, "s")
    accounts = [account(one, 0.2, compute=1.0) for one in ("worker:0", "worker:1")]
    found = report([rank("ps:0"), other, evaluates], verdict=verdict(accounts=accounts))
    kinds = "is between steps: 19 evaluations of 163 ms, 1 other stretch of 500 ms"
    assert told(found) == f"42% of the time of worker:1 {kinds}; the others wait meanwhile"
    assert told(found._replace(mode="asynchronous")) == f"42% of the time of worker:1 {kinds}"

    other.summary.values["between.share"] = seen(0.4, "1")
    assert told(found) == f"42% of the time {kinds}"

    other.summary.values["between.share"] = evaluates.summary.values["between.share"] = seen(0.019, "1")
    assert "between steps" not in rendered(screen.as_text(found))


def told(found: Report) -> str:
    """What is said of the time between steps, without its breaks of lines."""
    text = rendered(screen.as_text(found)).partition("  between    ")[2]
    return " ".join(text.partition("\n\n")[0].split())


def test_steps_left_out_are_named_as_one_says_it() -> None:
    left = [LeftOut("warm-up", 1, seen(0.94, "s")), LeftOut("after a break", 10, seen(0.87, "s"))]
    said = "1 warm-up step, 940 ms; 10 steps after a break, 870 ms"
    assert line(made(left_out=left), "left out") == f"  left out   {said}"


def test_rate_of_the_whole_run_is_said_where_it_is_another() -> None:
    said = "  whole run  320 examples/s, from the first step to the last"
    assert line(made(examples_per_second_of_run=seen(320.0, "examples/s")), "whole run") == said
    for same in (None, absent("examples/s"), seen(400.0, "examples/s")):
        assert "whole run" not in rendered(screen.as_text(made(examples_per_second_of_run=same)))


def test_what_else_costs_time_says_why_its_confidence_is_low() -> None:
    unsure = finding(sentence="it sleeps", why="few steady steps")
    assert line(made(also=[unsure]), "ALSO").endswith("(48% of the step); low confidence: few steady steps")


def test_confidence_is_not_broken_where_it_does_not_fit_at_the_edge() -> None:
    shown = lines(made(bottleneck=finding(sentence="x" * 38 + " " + "y" * 36)))
    assert shown[5].strip() == "(confidence: high)" and shown[4].endswith("yy")


def test_account_is_in_percent_of_each_rank_and_the_named_rank_is_in_it() -> None:
    accounts = [account(f"worker:{i}", 0.2 - i / 1000, compute=0.9, other=0.1) for i in range(64)]
    found = made(accounts=accounts, bottleneck=finding(rank="worker:50"))
    shown = lines(found)
    assert line(found, "worker:0").split() == ["worker:0", "200", "ms", "90%", "10%", "0.5", "40/40", "0"]
    assert sum(one.startswith("  worker:") for one in shown) == 8
    assert line(found, "worker:50") and "and 56 more" in line(found, "and ")


def test_part_that_cannot_be_told_apart_has_both_names() -> None:
    found = made(accounts=[account(input__host=0.4, compute=0.6)])
    assert "input or host" in line(found, "Where a step goes")


def test_parts_have_columns_of_their_own_where_nothing_is_known_of_how_ranks_ended() -> None:
    parts = account(input=0.2, compute=0.5, transfer=0.3)
    bare = parts._replace(exit="", cores=absent("1"), received=absent("byte/s"), sent=absent("byte/s"))
    head = line(made(accounts=[bare]), "Where a step goes").split()
    assert head == ["Where", "a", "step", "goes", "step", "input", "compute", "transfer"]


def test_small_parts_are_other_time_and_nothing_is_lost() -> None:
    shares = dict.fromkeys(("input", "host", "gc", "stopped", "paging", "disk", "blocked"), 0.05)
    found = made(accounts=[account(**shares, compute=0.3, contention=0.2, transfer=0.15)])
    cells = line(found, "worker:0").split()[3:]
    assert sum(int(cell.rstrip("%")) for cell in cells if cell.endswith("%")) == 100
    assert "other" in line(found, "Where a step goes")


def test_healthy_job_says_what_bounds_it_and_what_would_be_next() -> None:
    found = report(SEVERAL, verdict=healthy())
    assert line(found, "VERDICT") == "VERDICT      healthy: bound by compute, at 64% of its roof"
    assert "4 ms a step (4% of the step); if fixed" in line(
        found, "NEXT GAIN"
    ) and "BOTTLENECK" not in "\n".join(lines(found))


def test_rank_that_costs_a_healthy_job_hardly_anything_is_apart_from_the_next_gain() -> None:
    job = healthy()
    share = seen(0.002, "1")
    minor = finding(rank="worker:63", sentence="slower computing on worker:63", share=share)
    found = report(SEVERAL, verdict=job._replace(also=[minor, *job.also]))
    assert "slower computing on worker:63, 76.1 ms a step (<1% of the step)" in line(found, "ALSO")
    assert "if fixed" not in line(found, "ALSO") and "if fixed" in line(found, "NEXT GAIN")


def test_job_without_steps_says_what_to_do() -> None:
    shown = "\n".join(lines(report(verdict=unknown())))
    assert "start the ranks with `roofline-agent run -- COMMAND`" in shown
    assert "step time unknown: no steps were seen" in shown and "Where a step goes" not in shown


def test_cost_that_nobody_knows_says_why() -> None:
    found = made(bottleneck=finding(cost=absent("s", "12 steps"), share=absent("1"), gain=None))
    assert line(found, "costs") == "  costs      unknown: 12 steps"


def test_what_to_ask_next() -> None:
    shown = "\n".join(lines(made()))
    for command in ("report 42 --full", "stragglers --job 42", "what-if --job 42 --fix ps:1"):
        assert command in shown
    assert "stragglers" not in "\n".join(lines(report(SEVERAL, verdict=healthy())))


def test_fix_is_offered_for_one_rank_alone() -> None:
    several = finding(rank="worker:0, worker:1", sentence="worker:0 and worker:1 sleep")
    assert "--fix" not in "\n".join(lines(made(bottleneck=several)))


def test_name_that_looks_like_an_option_is_no_option_in_commands() -> None:
    found = made()._replace(job="-x")
    assert "report --job -x --full" in rendered(screen.as_text(found))
    assert "roofline-client report --job -x" in rendered(screen.in_brief(found))


def test_names_with_blanks_stand_in_quotes_in_commands() -> None:
    found = made()._replace(job="42 of user 1001")
    shown = "\n".join(lines(found))
    for command in ("report '42 of user 1001' --full", "what-if --job '42 of user 1001' --fix ps:1"):
        assert command in shown
    assert "roofline-client report '42 of user 1001'" in rendered(screen.in_brief(found))


def test_low_confidence_says_why() -> None:
    found = made(bottleneck=finding(confidence="low", why="only 12 steady steps"))
    assert "confidence: low" in line(found, "BOTTLENECK")
    assert "low confidence: only 12" in line(found, "why")


def test_full_has_the_screen_first_and_the_old_sentences_only_without_a_verdict() -> None:
    text = rendered(screen.in_full(made()._replace(roofs=[roof()])))
    assert text.index("BOTTLENECK") < text.index("Ceilings") < text.index("Notes")
    assert "16x below their roof" not in text
    assert "16x below their roof" in rendered(screen.in_full(report()))


words = st.sampled_from(
    ["", "because it is so, " * 15, "x" * 250, "\x1f\n\x1b[2J", "世界 " * 40, "a\u0301" * 90]
)
shares = st.dictionaries(
    st.sampled_from(["input", "compute", "host|gc", "contention", "x" * 30]), st.floats(0, 1)
)


@pytest.mark.law
@given(
    ranks=st.lists(st.tuples(words, shares), max_size=12),
    texts=st.lists(words, max_size=8),
    left=st.integers(0, 5),
    job=words,
)
def test_any_verdict_is_one_screen(ranks: Any, texts: list[str], left: int, job: str) -> None:
    accounts = [account(f"worker:{at}", **of)._replace(rank=name[:60]) for at, (name, of) in enumerate(ranks)]
    found = report(
        job=job[:40],
        verdict=verdict(
            accounts=accounts,
            bottleneck=finding(evidence=texts, tries=texts, sentence=(texts or ["it"])[0][:160]),
            also=[finding(sentence=text[:160]) for text in texts],
            roofline=[text[:100] for text in texts[:3]],
            quality=[text[:80] for text in texts],
            left_out=[LeftOut("warm-up", 1, seen(1.0, "s"))] * left,
        ),
    )
    shown = _on(Console(width=300, file=io.StringIO(), color_system=None, emoji=False), found)
    assert len(shown) <= 30 and max(map(cell_len, shown)) <= 100


def _on(console: Console, found: Report) -> list[str]:
    console.print(screen.as_text(found), markup=False, highlight=False)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    shown = _on(Console(width=width, file=io.StringIO(), color_system=None), made())
    assert max(map(len, shown)) <= min(width, 100)
    assert "76.1 ms" in "\n".join(shown)


def on_terminal(found: Report, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(screen.OnTerminal(found))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_screen_that_is_redrawn_fits_the_terminal_and_says_where_it_does_not() -> None:
    found = made()
    assert on_terminal(found, 100, 40) == lines(found)
    low = on_terminal(found, 80, 24)
    assert len(low) <= 24 and any(line.startswith("More") for line in low)
    assert screen.REST not in low
    flat = on_terminal(found, 80, 8)
    assert len(flat) == 8
    assert flat[-1] == screen.REST


def test_a_job_with_a_very_long_name_has_its_name_and_no_line_too_long() -> None:
    shown = lines(report(SEVERAL, job="j" * 128, verdict=verdict()))
    assert max(map(len, shown)) <= 100
    assert "".join(shown).replace(" ", "").startswith(f"Job{'j' * 128}finished")


def test_wrapping_loses_no_word_and_breaks_long_ones() -> None:
    text = "one two three four " + "x" * 25
    pieces = wrapped(text, 10, 8)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert len(pieces[0]) <= 10 and all(len(piece) <= 8 for piece in pieces[1:])


def test_paragraph_goes_on_behind_its_dash() -> None:
    console = Console(width=20, file=io.StringIO(), color_system=None)
    console.print(Paragraph("  - one two three four five"))
    assert console.file.getvalue() == "  - one two three\n    four five\n"  # type: ignore[attr-defined]


# -- other forms --------------------------------------------------------------------------------------------


def test_markdown_has_tables_and_no_markup_of_names() -> None:
    hostile = "<b>|`x`|[a](http://b)"
    text = markdown(screen.in_full(made(headline=hostile, bottleneck=finding(sentence=hostile))))
    assert "- **BOTTLENECK** \\<b\\>\\|\\`x\\`\\|\\[a\\](http://b) (confidence: high)" in text
    assert "| Where a step goes | step | input |" in text and "| --- | ---: | ---: |" in text
    rows = [one for one in text.splitlines() if one.startswith("| worker:0 ")]
    assert rows[0].count(" | ") == text.split("| Where a step goes")[1].splitlines()[0].count(" | ")


def test_markdown_has_lines_below_their_key_and_fields_apart() -> None:
    found = markdown(screen.as_text(made())).splitlines()
    assert found[0].startswith("- **Job 42** finished (exit 0) · 12 s · 2 PS + 2 workers")
    at = next(number for number, line in enumerate(found) if "**evidence**" in line)
    assert found[at].startswith("  - **evidence** its busiest thread")
    assert found[at + 1].startswith("    - workers wait")
    assert " · stragglers --job 42 · " in next(line for line in found if "**More**" in line)


@pytest.mark.parametrize("begin", ["- a", "# a", "1. a", "+ a"])
def test_text_that_looks_like_markdown_is_text(begin: str) -> None:
    block = Labelled()
    block.add("", begin)
    assert "\\" in markdown(block)


@pytest.mark.parametrize(
    ("text", "shown"), [("47.9 ms a step", "47.9 ms a step"), ("1. see", "1\\. see"), ("- a", "\\- a")]
)
def test_numbers_have_no_backslash_that_a_reader_would_see(text: str, shown: str) -> None:
    block = Labelled()
    block.add("costs", text)
    assert markdown(block) == f"- **costs** {shown}\n"


def test_page_is_one_file_with_the_verdict_first() -> None:
    page = document("Job <42>", screen.in_full(made(bottleneck=finding(sentence="<script>x</script>"))))
    assert page.startswith("<!DOCTYPE html>") and "<title>Job &lt;42&gt;</title>" in page
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "http" not in page.replace("http://", "") and "src=" not in page and "url(" not in page
    assert page.index("BOTTLENECK") < page.index("Settings and facts")
