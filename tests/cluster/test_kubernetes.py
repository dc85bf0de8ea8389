"""deploy/kubernetes: linted, compared with the schemas of Kubernetes, and installed into a real API server
whose pods the webhook prepares."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from roofline_agent.kubernetes.patch import HOOKS, patch_for
from roofline_agent.ranks.discovery import Discovery
from roofline_server.access import authority

from ..agent.kubernetes.samples import SAMPLES, Sample, applied, environment, pod
from ..end_to_end.conftest import COMMANDS, REPOSITORY
from ..fakes import add_process, ended, free_port
from .commands_in_pages import lines, page
from .kubernetes_cluster import TOOLS, ApiServer, tool
from .slurm_cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
CHART = REPOSITORY / "deploy" / "kubernetes" / "roofline"
EVERYTHING = [
    *("--set", "podMonitor.enabled=true", "--set", "agent.seePodNetworks=true"),
    *("--set", "agent.runtimeClassName=nvidia", "--set", "server.storage.className=fast"),
    *("--set", "webhook.claimNamespaces={team-a,team-b}", "--set", "networkPolicy.agents={10.0.0.0/8}"),
    *(
        "--set",
        "networkPolicy.readerNamespaces={monitoring}",
        "--set",
        "image.registry=registry.example.org/ml",
    ),
    *("--set", f"image.agentDigest=sha256:{'0' * 64}", "--set-json", 'server.arguments=["--keep-days","30"]'),
    *("--set-json", 'image.pullSecrets=[{"name":"registry"}]'),
    *("--set", "webhook.nodeSelector.role=system", "--set", "webhook.certificate.secretName=webhook-tls"),
    *("--set-json", 'webhook.tolerations=[{"operator":"Exists"}]'),
    *("--set-json", 'agent.env=[{"name":"ROOFLINE_SPOOL_MB","value":"1024"}]'),
]


def helm(*words: str, fails: bool = False) -> str:
    program = tool("helm")
    if program is None:
        pytest.skip("no helm: make .venv-kubernetes/.ready")
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def rendered(version: str, *options: str) -> list[dict[str, Any]]:
    text = helm("template", "roofline", str(CHART), "-n", "roofline", "--kube-version", version, *options)
    return [one for one in yaml.safe_load_all(text) if one]


def test_chart_is_linted() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), *EVERYTHING)


@pytest.mark.parametrize(
    "wrong",
    [
        *("agent.nodeSelektor=x", "image.serverDigest=latest", "webhook.replicas=none"),
        *("agent.interval=0", "agent.interval=0.0", "agent.interval=61.5", "agent.interval=often"),
    ],
)
def test_value_that_is_none_of_ours_is_refused(wrong: str) -> None:
    assert wrong.partition("=")[0].split(".")[0] in helm(
        "template", "r", str(CHART), "--set", wrong, fails=True
    )


def webhook_objects(*options: str) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in rendered("1.33", *options) if "webhook" in one["metadata"]["name"]}


def test_webhook_has_a_certificate_of_the_cluster_where_one_is_named() -> None:
    """Argo CD renders charts without a cluster: each time the chart would make another certificate."""
    named = ("--set", "webhook.certificate.secretName=mine")
    found = webhook_objects(*named)
    assert "Secret" not in found
    volumes = found["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["secret"]["secretName"] == "mine"
    (webhook,) = found["MutatingWebhookConfiguration"]["webhooks"]
    assert "caBundle" not in webhook["clientConfig"]
    assert found == webhook_objects(*named), "no rendering differs from the last"
    signed = ("--set", "webhook.certificate.authority=PEM", "--set-string", "webhook.annotations.a=b")
    configuration = webhook_objects(*named, *signed)["MutatingWebhookConfiguration"]
    assert base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]) == b"PEM"
    assert configuration["metadata"]["annotations"] == {"a": "b"}


def test_upgrade_that_keeps_the_values_of_an_earlier_chart_is_rendered() -> None:
    """`--reuse-values` knows no default of this one."""
    without = ("--set", "webhook.certificate=null", "--set", "agent.env=null")
    assert "Secret" in webhook_objects(*without)


def test_agent_has_the_variables_that_are_given() -> None:
    given = ("--set-json", 'agent.env=[{"name":"ROOFLINE_SPOOL_MB","value":"1024"}]')
    (agent,) = [one for _, _, one in containers("1.33", *given) if one["name"] == "agent"]
    assert {"name": "ROOFLINE_SPOOL_MB", "value": "1024"} in agent["env"]


def test_numbers_can_be_set_as_helm_reads_them() -> None:
    """`--set` makes a number of 30, and text of 0.5."""
    options = ("--set", "agent.interval=0.5", "--set", "server.arguments={--keep-days,30}")
    given = {one["name"]: one.get("args", []) for _, _, one in containers("1.33", *options)}
    assert "--interval=0.5" in given["agent"]
    assert given["server"][-2:] == ["--keep-days", "30"]


def test_prometheus_that_the_network_policy_would_keep_out_is_refused() -> None:
    watched = ("--set", "podMonitor.enabled=true")
    assert "networkPolicy.readerNamespaces" in helm("template", "r", str(CHART), *watched, fails=True)
    for more in ("networkPolicy.enabled=false", "networkPolicy.readerNamespaces={monitoring}"):
        assert "PodMonitor" in [one["kind"] for one in rendered("1.33", *watched, "--set", more)]


def test_server_reaches_the_api_server_at_its_ports_and_nothing_else() -> None:
    def ports(*options: str) -> list[dict[str, Any]]:
        (policy,) = [
            one
            for one in rendered("1.33", *options)
            if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == "roofline-server"
        ]
        _, (*found,) = [rule["ports"] for rule in policy["spec"]["egress"]]
        return found

    assert ports() == [{"port": 443}, {"port": 6443}]
    assert ports("--set", "networkPolicy.apiServerPorts={16443}") == [{"port": 16443}]


@pytest.mark.parametrize("version", ["1.25", "1.30", "1.33", "1.37"])
@pytest.mark.parametrize("options", [[], EVERYTHING], ids=["plain", "everything"])
def test_manifests_are_valid_by_the_schemas_of_kubernetes(
    version: str, options: list[str], tmp_path: Path
) -> None:
    program = tool("kubernetes-validate")
    if program is None:
        pytest.skip("no kubernetes-validate: make .venv-kubernetes/.ready")
    kinds = []
    for number, one in enumerate(rendered(version, *options)):
        kinds.append(one["kind"])
        if one["kind"] != "PodMonitor":  # the schema of that is its operator's
            (tmp_path / f"{number}-{one['kind']}.yaml").write_text(yaml.safe_dump(one))
    files = sorted(tmp_path.glob("*.yaml"))
    done = subprocess.run(
        [program, "--strict", "-k", version, *files, CHART.parent / "check.yaml"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(files) == len(kinds) - kinds.count("PodMonitor")
    assert {"DaemonSet", "StatefulSet", "Service", "Role", "NetworkPolicy", "Secret"} < set(kinds)


def test_schemas_find_what_is_wrong(tmp_path: Path) -> None:
    program = tool("kubernetes-validate")
    if program is None:
        pytest.skip("no kubernetes-validate: make .venv-kubernetes/.ready")
    (wrong,) = [one for one in rendered("1.33") if one["kind"] == "DaemonSet"]
    wrong["spec"]["template"]["spec"]["hostPid"] = True
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    done = subprocess.run([program, "--strict", "-k", "1.33", tmp_path / "wrong.yaml"], capture_output=True)
    assert done.returncode != 0 and b"hostPid" in done.stdout + done.stderr


def test_pod_monitor_has_only_what_its_operator_knows() -> None:
    if not TOOLS:
        pytest.skip("no models of the Prometheus operator: make .venv-kubernetes/.ready")
    (monitor,) = [one for one in rendered("1.33", *EVERYTHING) if one["kind"] == "PodMonitor"]
    code = (
        "import json, sys; from cloudcoil.models.prometheus_operator.v1 import PodMonitor\n"
        "found = PodMonitor.model_validate(json.load(sys.stdin))\n"
        "print(found.spec.model_dump_json(by_alias=True, exclude_none=True))"
    )
    done = subprocess.run(
        [f"{TOOLS}/python", "-c", code], input=json.dumps(monitor), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == monitor["spec"]


def containers(version: str, *options: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Of all pods: part, spec of the pod, container."""
    for one in rendered(version, *options):
        if one["kind"] in ("DaemonSet", "StatefulSet", "Deployment"):
            spec = one["spec"]["template"]["spec"]
            for container in (*spec.get("initContainers", ()), *spec["containers"]):
                yield one["kind"], spec, container


def test_nobody_has_more_rights_than_the_units_of_systemd() -> None:
    unit = (REPOSITORY / "deploy" / "systemd" / "roofline-agent.service").read_text()
    (line,) = [one for one in unit.splitlines() if one.startswith("AmbientCapabilities=")]
    of_unit = {name.removeprefix("CAP_") for name in line.partition("=")[2].split()}
    for kind, spec, container in containers("1.33"):
        rights = container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False and rights["readOnlyRootFilesystem"] is True
        assert rights["capabilities"]["drop"] == ["ALL"] and "privileged" not in rights
        assert spec["automountServiceAccountToken"] is False
        added = set(rights["capabilities"].get("add", ()))
        assert added == (of_unit if container["name"] == "agent" else set())
        assert kind == "DaemonSet" or spec["securityContext"]["runAsNonRoot"] is True


def test_only_the_container_that_publishes_may_ask_the_cluster() -> None:
    holders = [
        container["name"]
        for _, _, container in containers("1.33")
        if any(mount["name"] == "account" for mount in container["volumeMounts"])
    ]
    assert holders == ["publish"]


def test_commands_are_ours_and_take_the_arguments() -> None:
    """Each command line of the chart is one that its program understands, as far as --help says."""
    seen = set()
    for _, _, container in containers("1.33", *EVERYTHING):
        command = container["command"]
        if command[0] == "sh":
            continue
        asked = [one for one in command[1:] if not one.startswith("-") and not one.startswith("/")]
        done = subprocess.run(
            [COMMANDS / command[0], *asked, "--help"], capture_output=True, text=True, check=True
        )
        options = {
            one.partition("=")[0] for one in (*command, *container.get("args", ())) if one.startswith("--")
        }
        assert options and all(option in done.stdout for option in options), (command, options)
        seen.add(" ".join([command[0], *asked]))
    assert seen == {
        "roofline-server",
        "roofline-server token publish",
        "roofline-agent",
        "roofline-agent hooks",
        "roofline-agent webhook",
    }


def script(name: str, **places: Any) -> list[str]:
    """A shell script of the chart, with other places than a container's (their last part names them)."""
    (found,) = [one for _, _, one in containers("1.33") if one["name"] == name]
    text = " ".join(found["args"])
    for place in ("/var/lib/roofline/server", "/var/lib/roofline/agent", "/etc/roofline/join", ":7642"):
        text = text.replace(place, str(places.get(place.rpartition("/")[2].strip(":"), place)))
    return [*found["command"], text.replace("roofline-server.roofline.svc:", "127.0.0.1:")]


def test_init_and_join_containers_do_once_what_they_do_and_again_for_another_server(tmp_path: Path) -> None:
    address, data, state, secret = f":{free_port()}", *(tmp_path / name for name in ("data", "state", "join"))
    places = {"server": data, "agent": state, "join": secret, "7642": address}
    for made in (state, secret):
        made.mkdir()
    environ = {**os.environ, "HOME": str(tmp_path), "PATH": f"{COMMANDS}:{os.environ['PATH']}"}
    environ["ROOFLINE_PAGE"] = environ["ROOFLINE_HTTP"] = "off"

    def run(*words: Any) -> str:
        done = subprocess.run([*map(str, words)], env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def joined() -> int:
        run(*script("join", **places))
        rows = json.loads(run("roofline-server", "token", "list", "--data", data, "--format", "json"))
        return sum(not one["joins"] and one["role"] == "agent" for one in rows)

    for _ in range(2):
        assert run(*script("init", **places)) == "", "what it prints would be a token in a log"
        before = (data / "access" / "authority.pem").read_text()
    assert (data / "access" / "authority.pem").read_text() == before
    listen = ["roofline-server", "--data", data, "--listen", f"127.0.0.1{address}"]
    with ended(subprocess.Popen([*map(str, listen)], env=environ, stderr=subprocess.DEVNULL)):
        counts = []
        for _ in range(2):
            (secret / "token").write_text(run("roofline-server", "token", "new", "--data", data).split()[-1])
            wait_until(
                lambda: (
                    "ready      yes"
                    in subprocess.run(
                        ["roofline-server", "status", "--data", data],
                        env=environ,
                        capture_output=True,
                        text=True,
                    ).stdout
                ),
                what="the server is ready",
            )
            counts += [joined(), joined()]
    first = counts[0]
    assert counts == [first, first, first + 1, first + 1]
    assert (state / "servers.json").stat().st_mode & 0o077 == 0


def test_open_mpi_passes_on_to_other_pods_what_the_webhook_names(tmp_path: Path) -> None:
    """The other pod is reached by what stands for ssh: it starts a command without any variable of ours."""
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun: install openmpi-bin")
    ssh = tmp_path / "reach"  # mpirun knows options of what is called ssh
    ssh.write_text('#!/bin/sh\nshift\nexec env -i PATH="$PATH" sh -c "$*"\n')
    ssh.chmod(0o755)
    launcher = SAMPLES["MPIJob launcher"].pod
    prepared = applied(launcher, patch_for(launcher, "team-a").operations)
    given = environment(prepared, "bert-launcher")
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "-H", "127.0.0.1:1,elsewhere:1"]
    words += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(ssh)]
    rank = 'echo "$OMPI_COMM_WORLD_RANK $PYTHONPATH $ROOFLINE_POD_JOB"'
    done = subprocess.run(
        [*words, "sh", "-c", rank], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{index} {HOOKS} team-a.bert" for index in (0, 1)]


@pytest.mark.parametrize("verb", ["install", "upgrade"])
def test_lines_of_the_page_are_taken_by_helm(verb: str) -> None:
    found = [one for one in lines("kubernetes.md") if one.startswith(f"helm {verb} ")]
    assert found
    for line in found:
        _, _, release, chart, *options = shlex.split(line)
        taken = [one for one in options if one not in ("--create-namespace", "--reuse-values")]
        helm("template", release, str(REPOSITORY / chart), *taken)


def test_objects_of_the_page_are_those_of_the_chart() -> None:
    said = set(re.findall(r"`(roofline-[a-z]+)`", page("kubernetes.md")))
    made = {one["metadata"]["name"] for one in rendered("1.33", *EVERYTHING)}
    assert said <= made | {"roofline-node"} and {"roofline-server", "roofline-join"} <= said


# -- with a real API server ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    missing = [name for name in ("kube-apiserver", "etcd", "helm", "kubectl", "openssl") if not tool(name)]
    if os.getuid() or missing:
        pytest.skip(f"takes root and {', '.join(missing)} (tests/cluster/build_api_server.sh, etcd-server)")
    with ApiServer(tmp_path_factory.mktemp("cluster")) as made:
        made.run("kubectl", "create", "namespace", "team-a")
        made.run("kubectl", "create", "namespace", "monitoring")
        made.run(
            "helm", "install", "roofline", CHART, "-n", "roofline", "--create-namespace",
            *("--set", "webhook.claimNamespaces={team-a}"),
        )  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def webhook(cluster: ApiServer) -> ApiServer:
    """The webhook as its Deployment starts it, at the address of its Service."""
    service = cluster.get("service", "-n", "roofline", "roofline-webhook")
    address = service["spec"]["clusterIP"]
    cluster.run("ip", "address", "add", f"{address}/32", "dev", "lo")
    secret = cluster.get("secret", "-n", "roofline", "roofline-webhook")["data"]
    for name in ("tls.crt", "tls.key"):
        (cluster.folder / name).write_bytes(base64.b64decode(secret[name]))
    deployed = cluster.get("deployment", "-n", "roofline", "roofline-webhook")
    (container,) = deployed["spec"]["template"]["spec"]["containers"]
    arguments = [
        one.replace("/etc/roofline/tls", str(cluster.folder)).replace("0.0.0.0:8443", f"{address}:443")
        for one in container["args"]
    ]
    cluster.start(COMMANDS / container["command"][0], *container["command"][1:], *arguments)
    probe = {"metadata": {"generateName": "probe-", "annotations": {"roofline/record": "true"}}}
    body = {"apiVersion": "v1", "kind": "Pod", **probe, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    wait_until(lambda: "volumes" in cluster.create(body, "monitoring")["spec"], 30, "the webhook answers")
    return cluster


def test_everything_of_the_chart_is_there(cluster: ApiServer) -> None:
    kinds = "daemonset,statefulset,deployment,service,networkpolicy,role,rolebinding,persistentvolumeclaim"
    names = {
        f"{one['kind']} {one['metadata']['name']}"
        for space in ("roofline", "team-a")
        for one in cluster.get(kinds, "-n", space)["items"]
    }
    assert {
        "DaemonSet roofline-agent",
        "StatefulSet roofline-server",
        "Deployment roofline-webhook",
        "Service roofline-server",
        "NetworkPolicy roofline-server",
        "PersistentVolumeClaim roofline-node",
    } <= names


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_pod_that_the_api_server_keeps_has_job_role_and_index(
    webhook: ApiServer, sample: Sample, tmp_path: Path
) -> None:
    kept = webhook.create(sample.pod, "team-a")
    name = kept["metadata"]["name"]
    try:
        add_process(tmp_path, 11, environment(kept, name) | sample.variables)
        discovery = Discovery(str(tmp_path))
        rank = discovery.look_at(11) or discovery.adopt(11, 5)
        assert rank is not None and (rank.job, rank.role, rank.index) == sample.expected[:3]
        assert rank.name == name, "which the API server has given after the webhook was asked"
        (volume,) = kept["spec"]["volumes"]
        assert volume["persistentVolumeClaim"] == {"claimName": "roofline-node", "readOnly": True}
    finally:
        webhook.run("kubectl", "delete", "pod", "-n", "team-a", name, "--grace-period=0", "--force")


def test_pods_that_do_not_ask_or_are_of_the_release_stay(webhook: ApiServer) -> None:
    silent = pod({"batch.kubernetes.io/job-name": "quiet"})
    silent["metadata"]["annotations"] = {}
    assert "volumes" not in webhook.create(silent, "team-a")["spec"]
    # By its label kubernetes.io/metadata.name, which an API server before 1.21 does not set.
    webhook.run(
        "kubectl", "label", "namespace", "roofline", "kubernetes.io/metadata.name=roofline", "--overwrite"
    )
    assert "volumes" not in webhook.create(pod({"batch.kubernetes.io/job-name": "own"}), "roofline")["spec"]


def publish(cluster: ApiServer, data: Path, account: Path, *more: str) -> str:
    """`token publish` as in the container of that name: with what Kubernetes puts into it."""
    inside = 'mount --bind $0 /var/run/secrets/kubernetes.io/serviceaccount && exec "$@"'
    place = "mkdir -p /run/secrets/kubernetes.io/serviceaccount; " + inside
    command = ["roofline-server", "token", "publish", "--data", data, *more]
    return cluster.run(
        *("unshare", "--mount", "sh", "-c", f"mount -t tmpfs tmpfs /run; {place}", account),
        *("env", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=6443"),
        *(COMMANDS / command[0], *command[1:]),
    )


def test_server_keeps_its_tokens_in_secrets_and_reads_no_other(cluster: ApiServer, tmp_path: Path) -> None:
    data = tmp_path / "data"
    authority.create(data / "access")
    account = tmp_path / "account"
    account.mkdir()
    token = cluster.run("kubectl", "create", "token", "-n", "roofline", "roofline-server")
    certificate = cluster.folder / "certificates" / "apiserver.crt"
    files = {"token": token, "namespace": "roofline", "ca.crt": certificate.read_text()}
    for name, text in files.items():
        (account / name).write_text(text)
    assert publish(cluster, data, account).count("is new") == 2
    assert publish(cluster, data, account).count("is good") == 2
    kept = cluster.get("secret", "-n", "roofline", "roofline-join")["data"]
    assert base64.b64decode(kept["token"]).startswith(b"roofline1.")
    with pytest.raises(AssertionError, match=r"roofline-webhook.* is forbidden"):
        publish(cluster, data, account, "--join", "roofline-webhook")
    before = cluster.get("secret", "-n", "roofline", "roofline-webhook")["data"]
    cluster.run(
        "helm", "upgrade", "roofline", CHART, "-n", "roofline", "--set", "agent.interval=2",
        *("--set", "webhook.claimNamespaces={team-a}"),
    )  # fmt: skip
    assert cluster.get("secret", "-n", "roofline", "roofline-join")["data"] == kept, (
        "an upgrade took the token"
    )
    assert cluster.get("secret", "-n", "roofline", "roofline-webhook")["data"] == before
