"""Small pods as an API server shows them to a webhook, labelled as each kind's controller documents.

Sources: jobset.sigs.k8s.io (labels of a JobSet), API types of Volcano v1alpha1, KubeRay, Kubeflow's MPI
operator v2beta1 and training operator v1, well-known labels of Kubernetes. Written by hand, not recorded on a
cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """variables: what the launcher inside the pod gives its rank. expected: job, role, index, tag "kind"."""

    pod: dict[str, Any]
    variables: dict[str, str]
    expected: tuple[str, str, int, str]


def pod(labels: Mapping[str, str], name: str = "", **more: Any) -> dict[str, Any]:
    """One container that trains; more: fields of the container."""
    about: dict[str, Any] = {"labels": dict(labels), "annotations": {"roofline/record": "true"}}
    about |= {"name": name} if name else {"generateName": "made-by-a-job-"}
    container = {"name": "main", "image": "train:1", "command": ["python", "train.py"], **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about,
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


def jobset(name: str, role: str, replicas: int, which: int, within: int) -> dict[str, str]:
    return {
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "jobset.sigs.k8s.io/replicatedjob-replicas": str(replicas),
        "jobset.sigs.k8s.io/job-index": str(which),
        "batch.kubernetes.io/job-name": f"{name}-{role}-{which}",
        "job-name": f"{name}-{role}-{which}",
        "batch.kubernetes.io/job-completion-index": str(within),
    }


MPI = {"training.kubeflow.org/operator-name": "mpi-operator", "training.kubeflow.org/job-name": "bert"}
RAY = {"ray.io/is-ray-node": "yes", "ray.io/cluster": "sweep-x7k2p", "app.kubernetes.io/name": "kuberay"}
TORCHRUN = {"RANK": "9", "WORLD_SIZE": "16", "MASTER_ADDR": "resnet-node-0-0.resnet", "MASTER_PORT": "29500"}
TRAINER = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}

SAMPLES = {
    "JobSet, a pod a job": Sample(
        pod(jobset("gpt", "workers", 4, 3, 0)), {}, ("team-a.gpt", "workers", 3, "JobSet")
    ),
    "JobSet, one job of many pods": Sample(
        pod(jobset("gpt", "workers", 1, 0, 5)), {}, ("team-a.gpt", "workers", 5, "JobSet")
    ),
    "JobSet, many jobs of many pods": Sample(
        pod(jobset("gpt", "workers", 4, 3, 2)), {}, ("team-a.gpt", "workers", 11, "JobSet")
    ),
    "JobSet whose pod runs torchrun": Sample(
        pod(jobset("gpt", "workers", 1, 0, 1)), TORCHRUN, ("team-a.gpt", "ddp", 9, "JobSet")
    ),
    "Kubeflow Trainer v2": Sample(
        pod({**jobset("resnet", "node", 1, 0, 1), **TRAINER}), {}, ("team-a.resnet", "worker", 1, "TrainJob")
    ),
    "Kubeflow Trainer v2 with torchrun": Sample(
        pod({**jobset("resnet", "node", 1, 0, 1), **TRAINER}),
        TORCHRUN,
        ("team-a.resnet", "ddp", 9, "TrainJob"),
    ),
    "Volcano": Sample(
        pod(
            {"volcano.sh/job-name": "lm", "volcano.sh/task-spec": "ps", "volcano.sh/task-index": "1"},
            "lm-ps-1",
        ),
        {},
        ("team-a.lm", "ps", 1, "Volcano"),
    ),
    "Volcano before it labelled the index": Sample(
        pod({"volcano.sh/job-name": "lm", "volcano.sh/task-spec": "worker"}, "lm-worker-7"),
        {},
        ("team-a.lm", "worker", 7, "Volcano"),
    ),
    "KubeRay head": Sample(
        pod({**RAY, "ray.io/node-type": "head", "ray.io/group": "headgroup"}, "sweep-x7k2p-head-abcde"),
        {},
        ("team-a.sweep-x7k2p", "head", 0, "KubeRay"),
    ),
    "KubeRay worker": Sample(
        pod(
            {
                **RAY,
                "ray.io/node-type": "worker",
                "ray.io/group": "gpus",
                "ray.io/originated-from-cr-name": "sweep",
                "ray.io/worker-group-replica-index": "2",
            }
        ),
        {},
        ("team-a.sweep", "gpus", 2, "KubeRay"),
    ),
    "MPIJob launcher": Sample(
        pod({**MPI, "training.kubeflow.org/job-role": "launcher", "job-name": "bert-launcher"}),
        {},
        ("team-a.bert", "launcher", 0, "MPIJob"),
    ),
    "MPIJob worker": Sample(
        pod(
            {**MPI, "training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "3"},
            "bert-worker-3",
        ),
        {"OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_SIZE": "8"},
        ("team-a.bert", "horovod", 6, "MPIJob"),
    ),
    "PyTorchJob of Kubeflow's training operator": Sample(
        pod(
            {
                "training.kubeflow.org/job-name": "vit",
                "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "1",
            },
            "vit-worker-1",
        ),
        {},
        ("team-a.vit", "worker", 1, "Kubeflow"),
    ),
    "indexed Job": Sample(
        pod({"batch.kubernetes.io/job-name": "plain", "batch.kubernetes.io/job-completion-index": "4"}),
        {},
        ("team-a.plain", "worker", 4, "Job"),
    ),
    "StatefulSet": Sample(
        pod({"statefulset.kubernetes.io/pod-name": "ps-2"}, "ps-2"),
        {},
        ("team-a.ps", "worker", 2, "StatefulSet"),
    ),
}


def applied(pod: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod after a JSON patch (RFC 6902) of "add" alone."""
    made = copy.deepcopy(pod)
    for one in operations:
        assert one["op"] == "add"
        *parents, last = one["path"].lstrip("/").split("/")
        place: Any = made
        for step in parents:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if isinstance(place, list):
            place.insert(len(place) if last == "-" else int(last), one["value"])
        else:
            place[last] = one["value"]
    return made


def environment(pod: dict[str, Any], name: str, container: int = 0) -> dict[str, str]:
    """What the kubelet gives a container's processes. name: of the pod, as the API server has it by then."""
    found = {}
    for one in pod["spec"]["containers"][container].get("env", ()):
        field = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[one["name"]] = {"metadata.name": name}[field] if field else one.get("value", "")
    return found
