"""What Slurm 22.05 says of a job: the variables below are as it set them on two nodes."""

from __future__ import annotations

import pytest
from roofline_agent.ranks.settings import RankFacts
from roofline_agent.ranks.slurm import End, attributes, ended, number_of, packed, parse_end, parse_shown
from roofline_agent.records import Rank

TASK = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_ACCOUNT": "physics",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_NAME": "train",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_NTASKS": "4",
    "SLURM_GPUS_ON_NODE": "2",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
}
EPILOG = {"SLURM_JOB_ID": "7", "SLURM_JOB_NTASKS": "4", "SLURM_JOB_RESTART_COUNT": "0"}
SHOWN = "JobId=7 JobName=a b   JobState=COMPLETING Reason={reason} Dependency=(null) ExitCode={code}\n"


def shown(reason: str, code: str) -> dict[str, str]:
    return parse_shown(SHOWN.format(reason=reason, code=code), "7")


def test_of_an_array_the_line_of_the_task_counts() -> None:
    text = "JobId=8 ArrayJobId=7 JobState=COMPLETED\nJobId=7 ArrayJobId=7 JobState=FAILED\n"
    assert parse_shown(text, "7")["JobState"] == "FAILED"
    assert parse_shown(text, "9") == {} == parse_shown("", "7")


def test_attributes_of_a_task() -> None:
    assert attributes(TASK) == {
        "slurm.job": "7",
        "slurm.user": "alice",
        "slurm.account": "physics",
        "slurm.partition": "gpu",
        "slurm.name": "train",
        "slurm.nodes": "2",
        "slurm.tasks": "4",
        "slurm.gpus_per_node": "2",
    }
    assert attributes({"USER": "alice"}) == {}, "not in Slurm"


def test_tasks_are_those_of_the_job_where_the_prolog_has_kept_them() -> None:
    assert attributes({**TASK, "ROOFLINE_SLURM_TASKS": "8"})["slurm.tasks"] == "8"


def test_array_restart_and_parts() -> None:
    more = {"SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "1"}
    found = attributes({**TASK, **more, "SLURM_HET_SIZE": "2"})
    assert (found["slurm.array"], found["slurm.restarts"], found["slurm.parts"]) == ("4_3", "1", "2")


@pytest.mark.parametrize("name", ["SLURM_JOB_ID_HET_GROUP_0", "SLURM_HET_JOB_ID"])
def test_heterogeneous_job_has_the_number_of_its_first_part(name: str) -> None:
    environ = {**TASK, "SLURM_JOB_ID": "8", name: "7"}
    assert number_of(environ) == "7" and attributes(environ)["slurm.job"] == "7"


def test_names_that_cannot_be_shown_are_left_out_and_long_ones_cut() -> None:
    found = attributes({**TASK, "SLURM_JOB_NAME": "a\x1b[31m", "SLURM_JOB_ACCOUNT": "x" * 1000})
    assert "slurm.name" not in found and len(found["slurm.account"]) == 256


@pytest.mark.parametrize(
    ("reason", "code", "state", "written"),
    [
        ("None", "0:0", "COMPLETED", "0"),
        ("NonZeroExitCode", "3:0", "FAILED", "3"),
        ("TimeLimit", "0:15", "TIMEOUT", "0:15"),
        ("None", "0:15", "CANCELLED", "0:15"),
        ("JobLaunchFailure", "0:9", "FAILED", "0:9"),
        ("OutOfMemory", "0:125", "OUT_OF_MEMORY", "0:125"),
    ],
)
def test_end_of_a_job(reason: str, code: str, state: str, written: str) -> None:
    assert ended(EPILOG, shown(reason, code), "0") == End("7", state, written, "4")


def test_without_an_answer_of_the_controller_nothing_is_said_of_the_end() -> None:
    """The epilog's own variable has 0:0 for a job that was cancelled, too."""
    found = ended({**EPILOG, "SLURM_JOB_EXIT_CODE2": "0:0"}, {}, "")
    assert found is not None and found.tags() == {"slurm.tasks": "4"}


def test_requeued_job_has_not_completed() -> None:
    found = ended({**EPILOG, "SLURM_JOB_RESTART_COUNT": "1"}, shown("None", "0:0"), "0")
    assert found == End("7", "REQUEUED", "", "4")


def test_other_parts_of_a_heterogeneous_job_leave_its_end_to_the_first() -> None:
    assert ended({**EPILOG, "SLURM_JOB_ID": "8", "SLURM_HET_JOB_ID": "7"}, shown("None", "0:0"), "0") is None


def test_end_on_its_way_to_the_agent() -> None:
    end = End("7", "FAILED", "3", "4")
    assert parse_end(packed(end)) == end
    for wrong in ("", "{}", "[1, 2, 3, 4]", '["7"]', '["7", "", "", "' + "x" * 300 + '"]'):
        with pytest.raises((ValueError, TypeError)):
            parse_end(wrong)


def test_rank_has_what_slurm_says_and_at_last_how_its_job_ended() -> None:
    facts, rank = RankFacts(), Rank("mine", "worker", 3, pid=5)
    started = [event.text for event in facts.of_started([(rank, TASK)], [rank], 1)]
    assert "tag.slurm.account=physics" in started
    # By Slurm's number, whatever the user has called the job.
    made = facts.of_ended([End("9", "FAILED", "1"), End("7", "TIMEOUT", "0:15", "4")], 2)
    texts = ["tag.slurm.state=TIMEOUT", "tag.slurm.exit=0:15", "tag.slurm.tasks=4"]
    assert [(event.rank, event.text) for event in made] == [(rank, text) for text in texts]
    assert facts.of_ended([End("7", "TIMEOUT", "0:15")], 3) == [], "once"


def test_tags_of_the_user_go_before_those_of_slurm() -> None:
    rank = Rank("7", "worker", 3, pid=5)
    environ = {**TASK, "ROOFLINE_TAGS": "slurm.account=mine"}
    texts = [event.text for event in RankFacts().of_started([(rank, environ)], [rank], 1)]
    assert "tag.slurm.account=mine" in texts and "tag.slurm.account=physics" not in texts
