"""What stands under a picture."""

from __future__ import annotations

from roofline.answers.about import MachineAbout
from roofline_client import plots
from roofline_client.plots import caption, layout, omissions
from roofline_client.plots.label_placement import shortened

from ..reports import BEGIN, SECOND, absent
from . import models
from .models import XEON, about


def first(**more: object) -> str:
    return caption.of(about(**more)).about[0]


def test_job_machine_date_and_clocks() -> None:
    assert first() == (
        "Job 42 · node1: Intel(R) Xeon(R) Gold 6126 CPU @ 2.60GHz, 24 CPUs · ceilings of 2025-10-08 · "
        "ran 2025-10-09 08:53 to 08:58 UTC · clocks within 25 us, shortest median step 65.2 ms · nodes=4"
    )


def test_nodes_of_one_kind_stand_together() -> None:
    day = BEGIN - 86_400 * SECOND
    machines = [MachineAbout(f"n{n}", XEON, 24, day + n * 86_400 * SECOND) for n in range(6)]
    paragraph = first(machines=[MachineAbout("z", "", 1, 0), *machines])
    assert "n0, n1, n2, n3 and 2 more: Intel" in paragraph
    assert "z: a CPU not named, 1 CPU" in paragraph
    assert "ceilings of 2025-10-08 to 2025-10-13 (none of z)" in paragraph


def test_what_is_not_known_is_in_the_caption() -> None:
    paragraph = first(alignment=absent("s", "one ping alone"), machines=[MachineAbout("a", XEON, 2, 0)])
    assert "alignment of the clocks unknown (one ping alone)" in paragraph
    assert "ceilings never measured" in paragraph
    assert "clocks within 25 us" in first(step_time=absent("s")) and "median" not in first(
        step_time=absent("s")
    )


def test_end_on_another_day_has_its_date() -> None:
    assert "2025-10-09 08:53 to 2025-10-10 08:53 UTC" in first(end_ns=BEGIN + 86_400 * SECOND)
    assert "2025-10-09 08:53 UTC" in first(end_ns=BEGIN)


def test_many_jobs_are_counted() -> None:
    assert first(jobs=[str(n) for n in range(9)]).startswith("Jobs 0, 1, 2, 3 and 5 more · ")
    assert first(jobs=["x" * 500]).startswith("Job " + "x" * 26 + "…")


def test_equal_notes_appear_once() -> None:
    made = caption.of(about(), ["a", "b "], ["a", "", "c"], key=["1 x", "2 y"])
    assert made.notes == ["a", "b", "c"] and made.key == ["1 x; 2 y."]


def test_prose_is_cut_where_a_clause_ends_else_at_a_word() -> None:
    words = " ".join(["measured"] * 60)
    (note,) = caption.of(None, [words]).notes
    assert note.endswith(" measured…") and len(note) <= caption.LONGEST_NOTE
    assert caption.of(None, ["x" * 500]).notes == ["x" * (caption.LONGEST_NOTE - 1) + "…"]
    assert caption.cut("ps:0: not drawn (no FLOP/s: nothing ran; no PMU: none in this machine).", 50) == (
        "ps:0: not drawn (no FLOP/s: nothing ran…)"
    )
    assert caption.cut("short, ") == "short, "


def test_sentences_are_joined_by_semicolons() -> None:
    assert (
        caption.joined(["ps:0: no PMU.", "", "vm has no ceilings: run x"])
        == "ps:0: no PMU; vm has no ceilings: run x"
    )


def test_title_names_the_experiment_or_the_job() -> None:
    assert caption.title("Roofline", about(), "node1") == "Roofline of job 42 on node1"
    assert caption.title("Trajectory", about(experiment="vgg\n16")) == "Trajectory of experiment vgg?16"
    assert caption.title("Steps", None) == "Steps"


def test_long_names_keep_both_ends() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcdef…ijk"


def test_notes_have_six_lines_with_what_the_picture_is_about_and_the_rest_is_counted() -> None:
    record = models.roofline([models.point()], [models.xeon_roof()], notes=[f"note {n}." for n in range(9)])
    figure = plots.figure("roofline", record)
    lines = [text.get_text() for text in figure.texts][1:]
    assert len(lines) == layout.MOST_LINES
    assert lines[-1] == "6 more notes: `roofline-client roofline --job 42` shows them."
    assert lines[-2] == "note 2."
    long = " ".join(["measured"] * 17)
    figure = plots.figure("roofline", record._replace(notes=[f"{n} {long}" for n in range(3)]))
    assert [text.get_text() for text in figure.texts][-1].startswith("2 more notes: ")


def test_the_command_shows_the_same() -> None:
    assert caption.command("breakdown", about(), by="") == "roofline-client breakdown --job 42"
    assert caption.command("steps", about(jobs=["a b"])) == "roofline-client steps --job 'a b'"
    several = about(jobs=["1", "2"], experiment="vgg16")
    expected = "roofline-client trajectory --experiment vgg16 --over nodes"
    assert caption.command("trajectory", several, over="nodes") == expected
    many = about(jobs=[f"job-{n}" for n in range(20)])
    assert caption.command("trajectory", many, over="nodes") == "roofline-client trajectory"
    assert caption.more(1, "") == "1 more note: see the report."


def test_sentences_that_differ_in_numbers_alone_are_merged() -> None:
    statements = [("worker:0", "354 calls of 9"), ("worker:1", "1,366.5 calls of 9"), ("ps:0", "none")]
    assert omissions.merged(statements) == ["worker:0-1: 354 to 1,366.5 calls of 9", "ps:0: none"]
    # Numbers within names are no amounts.
    names = [("a", "runs avx512 on node:1"), ("b", "runs avx256 on node:1"), ("c", "runs avx512 on node:2")]
    assert len(omissions.merged(names)) == 3


def test_figure_without_a_caption_keeps_its_key_and_nothing_else_below_it() -> None:
    record = models.breakdown("worker", "ps")
    with_one, without = (plots.figure("breakdown", record, with_caption=shown) for shown in (True, False))
    assert any("Xeon" in text.get_text() for text in with_one.texts)
    assert not any("Xeon" in text.get_text() or "clocks" in text.get_text() for text in without.texts)
    assert without.get_figheight() < with_one.get_figheight()
    # What was asked of one figure is not left for the next.
    assert any("Xeon" in text.get_text() for text in plots.figure("breakdown", record).texts)
