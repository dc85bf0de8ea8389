"""What is changed in a pod that asks to be recorded, as a JSON patch (RFC 6902). Pure logic.

A pod asks by the annotation RECORD. It gets the node's folder of the agent, with the mark socket and the
hooks, and variables: where the hooks are, and what Kubernetes calls the pod (ranks/pods.py). What the pod's
author has set stays as it is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..ranks import pods, tags
from ..ranks.askable import problem_of
from .workloads import Member, PodMeta, member_of

RECORD = "roofline/record"  # "true": this pod is recorded
ASKED = {  # annotation -> the variable that it becomes
    "roofline/job": "ROOFLINE_JOB",
    "roofline/role": "ROOFLINE_ROLE",
    "roofline/index": pods.INDEX,
    "roofline/tags": tags.TAGS,
    "roofline/experiment": tags.EXPERIMENT,
}
PYTHON_PATH = "roofline/pythonpath"  # the PYTHONPATH that the image sets, which nobody but its author knows
FOLDER = "/run/roofline"  # of the node, and in the pod
HOOKS = f"{FOLDER}/hooks/roofline_agent/hooks/inject"
VOLUME = "roofline-webhook"  # rare: an author may well call a volume of their own "roofline"
CLAIM = "roofline-node"
# What mpirun gives to ranks in other pods: sshd starts them without the variables of their container.
TO_OTHER_PODS = {"PYTHONPATH", pods.JOB, pods.NAMESPACE, pods.KIND, *ASKED.values()} - {pods.INDEX}
OPEN_MPI_EXPORTS = "OMPI_MCA_mca_base_env_list"

Operation = dict[str, Any]


class Patch(NamedTuple):
    """Operations, in order, and what their author should read."""

    operations: list[Operation]
    warnings: list[str]


def asks(pod: Mapping[str, Any]) -> bool:
    """Whether the pod asks to be recorded, and has not been prepared for it already."""
    wanted = _meta(pod).annotations.get(RECORD, "").lower() == "true"
    return wanted and not _is_nodes_folder(_volumes(pod).get(VOLUME))


def patch_for(pod: Mapping[str, Any], namespace: str, claimed: Collection[str] = ()) -> Patch:
    """What makes the ranks of this pod known; nothing where it does not ask.

    claimed: namespaces where the PersistentVolumeClaim CLAIM stands for the node's folder, as their pods may
    have no hostPath.
    """
    if not asks(pod):
        return Patch([], [])
    if VOLUME in _volumes(pod):
        return Patch([], [f"the pod has a volume named {VOLUME} of its own: it is not recorded; rename it"])
    meta = _meta(pod)
    member = member_of(meta)
    given = _variables(meta, member, namespace)
    containers = _list(pod["spec"], "containers")
    operations: list[Operation] = []
    warnings: list[str] = []
    if any(_own_mount(container) is None for container in containers):
        operations += _volume(pod, namespace in claimed)
    for at, container in enumerate(containers):
        path = f"/spec/containers/{at}"
        if (own := _own_mount(container)) is None:
            mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
            operations += _appended(path, container, "volumeMounts", [mount])
        elif not _is_nodes_folder(_volumes(pod).get(own)):
            warnings.append(
                f"container {container.get('name')}: its volume {own} at {FOLDER} is not the node's folder "
                "of that name, so it is not recorded"
            )
        operations += _appended(path, container, "env", _missing(container, given))
        found = _python_path(path, container, meta.annotations.get(PYTHON_PATH, ""))
        if found is None:
            warnings.append(
                f"container {container.get('name')}: PYTHONPATH is taken from elsewhere (valueFrom), so "
                "steps are recorded only where the command is run by `roofline-agent run`"
            )
        else:
            operations += found
            if _may_lose_path(container, meta.annotations):
                warnings.append(
                    f"container {container.get('name')}: if envFrom sets PYTHONPATH there, it is replaced: "
                    f"name its value in the annotation {PYTHON_PATH}, or set that to '' if there is none"
                )
    if member is None and "roofline/job" not in meta.annotations:
        warnings.append("no label says of which job this pod is: name it in the annotation roofline/job")
    if problem := problem_of(meta.annotations.get("roofline/job", "")):
        warnings.append(f"roofline/job: {problem}")
    return Patch(operations, warnings)


def _variables(meta: PodMeta, member: Member | None, namespace: str) -> list[Operation]:
    """By name; what the user asks for comes first, as of two of one name the first is kept."""
    asked = {ASKED[key]: text for key, text in meta.annotations.items() if key in ASKED}
    variables = {**asked, pods.NAMESPACE: namespace}
    if member is not None:
        known = {pods.JOB: f"{namespace}.{member.job}", pods.KIND: member.kind, pods.ROLE: member.role}
        if member.index is not None:
            known[pods.INDEX] = str(member.index)
        variables = {**known, **variables}
        if member.launches:
            variables[OPEN_MPI_EXPORTS] = ";".join(sorted(TO_OTHER_PODS & {*variables, "PYTHONPATH"}))
    # The API server gives a pod its name only after it was asked for changes.
    name = {"name": pods.POD, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return [name, *({"name": one, "value": text} for one, text in variables.items())]


def _missing(container: Mapping[str, Any], given: Sequence[Operation]) -> list[Operation]:
    there = {one.get("name") for one in _list(container, "env")}
    return [one for one in given if one["name"] not in there]


def _may_lose_path(container: Mapping[str, Any], annotations: Mapping[str, str]) -> bool:
    """Whether a ConfigMap or Secret, which nobody sees here, can have a PYTHONPATH that ours replaces."""
    named = any(one.get("name") == "PYTHONPATH" for one in _list(container, "env"))
    unprefixed = any(not one.get("prefix") for one in _list(container, "envFrom"))
    return unprefixed and not named and PYTHON_PATH not in annotations


def _python_path(path: str, container: Mapping[str, Any], of_image: str) -> list[Operation] | None:
    """The hooks' folder before what is there; None: what is there cannot be seen."""
    for at, one in enumerate(_list(container, "env")):
        if one.get("name") == "PYTHONPATH":
            if "valueFrom" in one:
                return None
            own = one.get("value") or ""
            if HOOKS in own.split(":"):  # the pod was prepared before
                return []
            both = ":".join(filter(None, (HOOKS, own)))
            return [{"op": "add", "path": f"{path}/env/{at}/value", "value": both}]
    both = ":".join(filter(None, (HOOKS, of_image)))
    # The container has variables by now.
    return [{"op": "add", "path": f"{path}/env/-", "value": {"name": "PYTHONPATH", "value": both}}]


def _own_mount(container: Mapping[str, Any]) -> str | None:
    """The volume that the author has put where ours would go; a second one there would be refused."""
    for mount in _list(container, "volumeMounts"):
        if posixpath.normpath(mount.get("mountPath") or "") == FOLDER:
            return str(mount.get("name"))
    return None


def _is_nodes_folder(volume: Mapping[str, Any] | None) -> bool:
    host = ((volume or {}).get("hostPath") or {}).get("path") or ""
    claim = ((volume or {}).get("persistentVolumeClaim") or {}).get("claimName")
    return posixpath.normpath(host) == FOLDER or claim == CLAIM


def _volumes(pod: Mapping[str, Any]) -> dict[Any, Mapping[str, Any]]:
    return {volume.get("name"): volume for volume in _list(pod.get("spec"), "volumes")}


def _volume(pod: Mapping[str, Any], claimed: bool) -> Iterator[Operation]:
    source: dict[str, Any] = {"hostPath": {"path": FOLDER, "type": "DirectoryOrCreate"}}
    if claimed:
        source = {"persistentVolumeClaim": {"claimName": CLAIM, "readOnly": True}}
    yield from _appended("/spec", pod["spec"], "volumes", [{"name": VOLUME, **source}])


def _appended(path: str, parent: Mapping[str, Any], name: str, new: Sequence[Operation]) -> list[Operation]:
    """Put these at the end of a list, which may not be there yet."""
    if not new:
        return []
    if not _list(parent, name):
        return [{"op": "add", "path": f"{path}/{name}", "value": list(new)}]
    return [{"op": "add", "path": f"{path}/{name}/-", "value": one} for one in new]


def _meta(pod: Mapping[str, Any]) -> PodMeta:
    about = pod.get("metadata") or {}
    return PodMeta(about.get("labels") or {}, about.get("annotations") or {}, about.get("name") or "")


def _list(parent: Any, name: str) -> list[Any]:
    return (parent or {}).get(name) or []
