"""Which job, role and index the labels of a pod say it is. Pure logic, and no call of the API server: what
makes the pods of a job has labelled them.

One reader for each kind, in READERS. Labels and their meaning: the API types of JobSet v1alpha2 (also below a
TrainJob of Kubeflow Trainer v2), Volcano's Job v1alpha1, KubeRay, Kubeflow's MPI operator v2beta1 and its
training operator v1, and Kubernetes' "Well-Known Labels".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

JOBSET = "jobset.sigs.k8s.io/"
VOLCANO = "volcano.sh/"
RAY = "ray.io/"
KUBEFLOW = "training.kubeflow.org/"
BATCH = "batch.kubernetes.io/"
COMPLETION = f"{BATCH}job-completion-index"
OF_TRAINER = "trainer.kubeflow.org/"
TRAINING_ROLES = ("node", "trainer-node")  # of a TrainJob: what its runtime calls the pods that train


class PodMeta(NamedTuple):
    """What decides: labels and annotations of a pod, and its name where it has one already."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    name: str = ""

    def either(self, key: str) -> str:
        """Some kinds put the same into a label or an annotation, by version."""
        return self.labels.get(key) or self.annotations.get(key) or ""


class Member(NamedTuple):
    """A pod as a member of a job; index None: nothing numbers it. launches: it starts ranks in other pods."""

    kind: str
    job: str
    role: str = "worker"
    index: int | None = None  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    launches: bool = False


def member_of(pod: PodMeta) -> Member | None:
    """None: no label says of which job it is."""
    return next((found for read in READERS if (found := read(pod)) is not None), None)


def _of_volcano(pod: PodMeta) -> Member | None:
    job, task = pod.either(f"{VOLCANO}job-name"), pod.either(f"{VOLCANO}task-spec")
    if not job:
        return None
    # Its controller calls the pods JOB-TASK-INDEX; older ones have no label with the index.
    index = pod.either(f"{VOLCANO}task-index") or pod.name.removeprefix(f"{job}-{task}-")
    return Member("Volcano", job, task or "worker", _number(index))


def _of_ray(pod: PodMeta) -> Member | None:
    cluster = pod.labels.get(f"{RAY}cluster", "")
    if not cluster:
        return None
    made_for = pod.labels.get(f"{RAY}originated-from-cr-name") or cluster
    if pod.labels.get(f"{RAY}node-type") == "head":
        return Member("KubeRay", made_for, "head", 0)
    group = pod.labels.get(f"{RAY}group") or "worker"
    return Member("KubeRay", made_for, group, _number(pod.labels.get(f"{RAY}worker-group-replica-index", "")))


def _of_kubeflow(pod: PodMeta) -> Member | None:
    """An MPIJob, or a PyTorchJob, TFJob or similar, of version 1."""
    job = pod.labels.get(f"{KUBEFLOW}job-name", "")
    if not job:
        return None
    of_mpi = pod.labels.get(f"{KUBEFLOW}operator-name") == "mpi-operator"
    # Of the others job-role says only which one is the master.
    of_others = pod.labels.get(f"{KUBEFLOW}replica-type") or pod.labels.get(f"{KUBEFLOW}job-role")
    role = (pod.labels.get(f"{KUBEFLOW}job-role") if of_mpi else of_others) or "worker"
    launches = of_mpi and role == "launcher"
    index = 0 if launches else _number(pod.labels.get(f"{KUBEFLOW}replica-index", ""))
    return Member("MPIJob" if of_mpi else "Kubeflow", job, role, index, launches)


def _of_jobset(pod: PodMeta) -> Member | None:
    jobset = pod.labels.get(f"{JOBSET}jobset-name", "")
    if not jobset:
        return None
    role = pod.labels.get(f"{JOBSET}replicatedjob-name") or "worker"
    of_trainer = any(key.startswith(OF_TRAINER) for key in (*pod.labels, *pod.annotations))
    within = _number(pod.either(COMPLETION))
    which = _number(pod.labels.get(f"{JOBSET}job-index", ""))
    jobs = _number(pod.labels.get(f"{JOBSET}replicatedjob-replicas", ""))
    # No label says how many pods each of its jobs has: they are numbered across the jobs, 0 of each, then 1.
    known = within is not None and which is not None and jobs
    index = within * jobs + which if known else within  # type: ignore[operator]
    if of_trainer and role in TRAINING_ROLES:
        role = "worker"
    return Member("TrainJob" if of_trainer else "JobSet", jobset, role, index)


def _of_job(pod: PodMeta) -> Member | None:
    job = pod.labels.get(f"{BATCH}job-name") or pod.labels.get("job-name", "")
    return Member("Job", job, "worker", _number(pod.either(COMPLETION))) if job else None


def _of_stateful_set(pod: PodMeta) -> Member | None:
    name = pod.labels.get("statefulset.kubernetes.io/pod-name", "")
    job, _, index = name.rpartition("-")
    return Member("StatefulSet", job, "worker", _number(index)) if job else None


# The kinds that make others come first: an MPIJob's launcher is also a Job's pod, a JobSet's pods are Jobs'.
READERS: tuple[Callable[[PodMeta], Member | None], ...] = (
    _of_volcano,
    _of_ray,
    _of_kubeflow,
    _of_jobset,
    _of_job,
    _of_stateful_set,
)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
