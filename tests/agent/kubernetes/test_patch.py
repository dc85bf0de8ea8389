"""A pod that asks is given what its ranks need, and then is the right job, role and index to an agent."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.kubernetes.patch import FOLDER, HOOKS, OPEN_MPI_EXPORTS, VOLUME, patch_for
from roofline_agent.ranks import pods
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.ranks.identity import may_name_a_rank
from roofline_step.sockets import SYSTEM_SOCKET

from tests.fakes import add_process

from .samples import SAMPLES, Sample, applied, environment, pod

PLAIN = SAMPLES["indexed Job"].pod


def prepared(pod: dict[str, Any], *claimed: str) -> dict[str, Any]:
    return applied(pod, patch_for(pod, "team-a", claimed).operations)


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_rank_in_a_pod_has_job_role_and_index(sample: Sample, tmp_path: Path) -> None:
    environ = environment(prepared(sample.pod), "pod-1") | sample.variables
    add_process(tmp_path, 11, environ)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    rank = discovery.look_at(11) or discovery.adopt(11, 5)
    assert rank is not None
    kind = pods.attributes(environ)["kubernetes.kind"]
    assert (rank.job, rank.role, rank.index, kind) == sample.expected
    assert rank.name == "pod-1"


def test_process_that_marks_nothing_and_no_launcher_names_is_no_rank(tmp_path: Path) -> None:
    """As sshd in the workers of an MPIJob, or a sidecar."""
    environ = environment(prepared(SAMPLES["MPIJob worker"].pod), "bert-worker-3")
    add_process(tmp_path, 11, environ)
    assert Discovery(str(tmp_path)).scan() == ([], [])
    assert not may_name_a_rank("\0".join(f"{k}={v}" for k, v in environ.items()).encode())


def test_wrapped_command_in_a_pod_is_its_rank(tmp_path: Path) -> None:
    environ = environment(prepared(SAMPLES["JobSet, a pod a job"].pod), "gpt-3")
    add_process(tmp_path, 11, {**environ, "ROOFLINE_WRAPPED": "1"})
    ((rank,), _) = Discovery(str(tmp_path)).scan()
    assert (rank.job, rank.key, rank.name) == ("team-a.gpt", "workers:3", "gpt-3")


def test_container_gets_socket_and_hooks_where_the_marks_are_sent_to() -> None:
    made = prepared(PLAIN)
    (container,) = made["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]
    assert made["spec"]["volumes"] == [
        {"name": VOLUME, "hostPath": {"path": FOLDER, "type": "DirectoryOrCreate"}}
    ]
    assert str(Path(SYSTEM_SOCKET).parent) == FOLDER
    assert environment(made, "p")["PYTHONPATH"] == HOOKS
    assert container["command"] == ["python", "train.py"], "the command stays as it is"


def test_claim_takes_the_place_of_the_nodes_folder() -> None:
    (volume,) = prepared(PLAIN, "team-b", "team-a")["spec"]["volumes"]
    assert volume == {
        "name": VOLUME,
        "persistentVolumeClaim": {"claimName": "roofline-node", "readOnly": True},
    }
    assert "hostPath" in prepared(PLAIN, "team-b")["spec"]["volumes"][0], "another namespace has no claim"


@pytest.mark.parametrize("said", ["false", "", None])
def test_pod_that_does_not_ask_stays_as_it_is(said: str | None) -> None:
    other = copy.deepcopy(PLAIN)
    other["metadata"]["annotations"] = {} if said is None else {"roofline/record": said}
    assert patch_for(other, "team-a") == ([], [])
    del other["metadata"]["annotations"]
    assert patch_for(other, "team-a") == ([], [])


def test_pod_is_prepared_once() -> None:
    """An API server may ask again when another webhook has changed the pod."""
    assert patch_for(prepared(PLAIN), "team-a") == ([], [])


@pytest.mark.parametrize("place", [FOLDER, f"{FOLDER}/"])
def test_folder_that_the_author_mounts_is_not_mounted_twice(place: str) -> None:
    """The API server refuses a pod with two mounts at one path."""
    own = [{"name": "roofline", "mountPath": place}]
    other = pod(PLAIN["metadata"]["labels"], volumeMounts=own)
    other["spec"]["volumes"] = [{"name": "roofline", "hostPath": {"path": FOLDER}}]
    made = patch_for(other, "team-a")
    spec = applied(other, made.operations)["spec"]
    assert spec["containers"][0]["volumeMounts"] == own
    assert spec["volumes"] == other["spec"]["volumes"], "a volume that nothing mounts may be forbidden"
    assert environment({"spec": spec}, "p")["PYTHONPATH"] == HOOKS
    assert made.warnings == []
    other["spec"]["containers"].append({"name": "second", "image": "i"})
    first, second = prepared(other)["spec"]["containers"]
    assert first["volumeMounts"] == own and second["volumeMounts"][0]["name"] == VOLUME


def test_pod_that_mounts_the_folder_itself_is_prepared_once() -> None:
    other = pod(PLAIN["metadata"]["labels"], volumeMounts=[{"name": "run", "mountPath": FOLDER}])
    other["spec"]["volumes"] = [{"name": "run", "hostPath": {"path": FOLDER}}]
    assert patch_for(prepared(other), "team-a") == ([], [])


def test_author_is_told_of_another_folder_in_the_place_of_the_nodes() -> None:
    other = pod(PLAIN["metadata"]["labels"], volumeMounts=[{"name": "run", "mountPath": FOLDER}])
    other["spec"]["volumes"] = [{"name": "run", "emptyDir": {}}]
    (warning,) = patch_for(other, "team-a").warnings
    assert "container main: its volume run at /run/roofline" in warning


def test_volume_of_the_authors_named_roofline_hinders_nothing() -> None:
    other = copy.deepcopy(PLAIN)
    other["spec"]["volumes"] = [{"name": "roofline", "emptyDir": {}}]
    assert [one["name"] for one in prepared(other)["spec"]["volumes"]] == ["roofline", VOLUME]


def test_author_is_told_where_the_volumes_name_is_taken() -> None:
    other = copy.deepcopy(PLAIN)
    other["spec"]["volumes"] = [{"name": VOLUME, "emptyDir": {}}]
    made = patch_for(other, "team-a")
    assert made.operations == [] and "not recorded; rename it" in made.warnings[0]


def test_what_the_author_has_set_stays() -> None:
    env = [{"name": "ROOFLINE_POD_JOB", "value": "mine"}, {"name": "PYTHONPATH", "value": "/app:/lib"}]
    other = pod(PLAIN["metadata"]["labels"], env=env, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    other["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    made = prepared(other)
    found = environment(made, "p")
    assert found["ROOFLINE_POD_JOB"] == "mine"
    assert found["PYTHONPATH"] == f"{HOOKS}:/app:/lib"
    assert [one["name"] for one in made["spec"]["volumes"]] == ["data", VOLUME]
    assert [one["name"] for one in made["spec"]["containers"][0]["volumeMounts"]] == ["data", VOLUME]


def test_path_that_the_image_sets_is_kept_where_its_author_names_it() -> None:
    other = copy.deepcopy(PLAIN)
    other["metadata"]["annotations"]["roofline/pythonpath"] = "/opt/app"
    assert environment(prepared(other), "p")["PYTHONPATH"] == f"{HOOKS}:/opt/app"


def test_path_that_cannot_be_seen_is_left_and_said() -> None:
    source = {"configMapKeyRef": {"name": "paths", "key": "python"}}
    other = pod(PLAIN["metadata"]["labels"], env=[{"name": "PYTHONPATH", "valueFrom": source}])
    made = patch_for(other, "team-a")
    env = applied(other, made.operations)["spec"]["containers"][0]["env"]
    assert [one for one in env if one["name"] == "PYTHONPATH"] == [
        {"name": "PYTHONPATH", "valueFrom": source}
    ]
    assert len(made.warnings) == 1 and "container main" in made.warnings[0]


def test_author_is_told_that_a_path_from_env_from_is_replaced() -> None:
    """Its ConfigMap cannot be seen."""
    source = [{"configMapRef": {"name": "settings"}}]
    other = pod(PLAIN["metadata"]["labels"], envFrom=source)
    (warning,) = patch_for(other, "team-a").warnings
    assert "container main: if envFrom sets PYTHONPATH there" in warning
    known = copy.deepcopy(other)
    known["metadata"]["annotations"]["roofline/pythonpath"] = ""
    own = pod(PLAIN["metadata"]["labels"], envFrom=source, env=[{"name": "PYTHONPATH", "value": "/app"}])
    prefixed = pod(PLAIN["metadata"]["labels"], envFrom=[{**source[0], "prefix": "APP_"}])
    for silent in (known, own, prefixed):
        assert patch_for(silent, "team-a").warnings == []


def test_annotations_go_before_labels() -> None:
    other = copy.deepcopy(SAMPLES["JobSet whose pod runs torchrun"].pod)
    other["metadata"]["annotations"] |= {
        "roofline/job": "ppo",
        "roofline/role": "actor",
        "roofline/index": "7",
        "roofline/tags": "nodes=4",
        "roofline/experiment": "scaling",
    }
    found = environment(prepared(other), "p")
    assert (found["ROOFLINE_JOB"], found["ROOFLINE_ROLE"], found["ROOFLINE_POD_INDEX"]) == (
        "ppo",
        "actor",
        "7",
    )
    assert (found["ROOFLINE_TAGS"], found["ROOFLINE_EXPERIMENT"]) == ("nodes=4", "scaling")


def test_pod_that_nothing_names_is_recorded_and_its_author_told() -> None:
    made = patch_for(pod({}), "team-a")
    assert made.operations and len(made.warnings) == 1 and "roofline/job" in made.warnings[0]
    named = pod({})
    named["metadata"]["annotations"]["roofline/job"] = "mine"
    assert patch_for(named, "team-a").warnings == []
    named["metadata"]["annotations"]["roofline/job"] = "last"
    assert "roofline/job: 'last' stands for" in patch_for(named, "team-a").warnings[0]


def test_mpirun_gives_to_other_pods_what_sshd_does_not() -> None:
    found = environment(prepared(SAMPLES["MPIJob launcher"].pod), "bert-launcher")
    given = found[OPEN_MPI_EXPORTS].split(";")
    assert "PYTHONPATH" in given and pods.JOB in given
    assert not {pods.POD, pods.ROLE, pods.INDEX} & {*given}, "those are the launcher's own"
    assert {*given} <= found.keys()
    assert OPEN_MPI_EXPORTS not in environment(prepared(SAMPLES["MPIJob worker"].pod), "bert-worker-3")


def test_each_container_is_prepared_by_itself() -> None:
    other = copy.deepcopy(PLAIN)
    other["spec"]["containers"].append({"name": "second", "image": "i", "env": [{"name": "A", "value": "1"}]})
    made = prepared(other)
    assert [environment(made, "p", at)["ROOFLINE_POD_INDEX"] for at in (0, 1)] == ["4", "4"]
    assert environment(made, "p", 1)["A"] == "1"
    assert all(container["volumeMounts"] for container in made["spec"]["containers"])
