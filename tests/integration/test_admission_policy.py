"""The chart's admission policy on a real API server: denials, permissions and warnings."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.chart import refusal, rendered
from support.chart_rights import PROGRAMS
from support.operator_cluster import Api, eventually, model

pytestmark = pytest.mark.integration

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "multi-tenancy.md"
VALUES = {
    "serviceAccounts": ["models"],
    "routeHostnames": ["*.ml.example.com", "iris.example.com"],
    "ingressAnnotations": ["cert-manager.io/"],
    "objectAnnotations": ["example.com/", "contact"],
    "prometheusAddresses": ["http://prometheus.monitoring:9090"],
    "modelUris": ["s3://team-models/", "pvc://", "configmap://"],
    "modelEndpoints": ["https://minio.example.com"],
}


def kubectl(kubeconfig: Path, *words: str, stdin: str = "") -> tuple[int, str]:
    """The exit status and the output of kubectl."""
    done = subprocess.run(
        [PROGRAMS / "kubectl", "--kubeconfig", kubeconfig, *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def policy(api: Api) -> Iterator[Any]:
    """Installs the policy for the test's namespace in a mode."""
    made: list[dict[str, Any]] = []

    def install(mode: str, **values: Any) -> None:
        selector = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
        chosen = {"mode": mode, "namespaceSelector": selector, **VALUES, **values}
        objects = rendered("--set-json", f"admissionPolicy={json.dumps(chosen)}")
        for (kind, _), item in objects.items():
            if kind.startswith("ValidatingAdmissionPolicy"):
                item["metadata"]["name"] = item["spec"]["policyName"] = f"it-{api.namespace}"
                if kind == "ValidatingAdmissionPolicy":
                    del item["spec"]["policyName"]
                made.append(item)
        code, said = kubectl(api.kubeconfig, "apply", "-f", "-", stdin=yaml.safe_dump_all(made))
        assert code == 0, said
        words = {"deny": "ValidatingAdmissionPolicy", "audit": "Warning: Validation failed"}[mode]
        probe = model("probe", runtime={"image": "a:1"}, podTemplate=pod(hostNetwork=True))
        eventually("the policy holds", lambda: words in dry_run(api, probe)[1])

    yield install
    for item in made:
        kubectl(api.kubeconfig, "delete", item["kind"], item["metadata"]["name"])


def dry_run(api: Api, body: dict[str, Any]) -> tuple[int, str]:
    words = ("apply", "--server-side", "--dry-run=server", "-n", api.namespace, "-f", "-")
    return kubectl(api.kubeconfig, *words, stdin=json.dumps(body))


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def container(**security: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "runtime", "securityContext": security}])


def annotated(profile: str) -> dict[str, Any]:
    key = "container.apparmor.security.beta.kubernetes.io/runtime"
    return {"metadata": {"annotations": {key: profile, "team": "risk"}}}


def scaled(address: str) -> dict[str, Any]:
    query = {"type": "Prometheus", "serverAddress": address, "query": "up", "target": 1}
    return {"maxReplicas": 2, "metrics": [{"type": "CPU", "target": 70}, query]}


def routed(*hostnames: str) -> dict[str, Any]:
    return {"parentRefs": [{"name": "web"}], "hostnames": list(hostnames)}


def marked(annotation: str) -> dict[str, Any]:
    return {"annotations": {annotation: "x"}, "labels": {"team": "risk"}}


def ingress(annotation: str) -> dict[str, Any]:
    return {"hostnames": ["a.ml.example.com"], "ingress": {"annotations": {annotation: "x"}}}


IMAGE = {"image": "example/server:1"}
DENIED = {
    "a host path": (
        {"podTemplate": pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}])},
        "hostPath is not",
    ),
    "the host's network": ({"podTemplate": pod(hostNetwork=True)}, "hostNetwork, hostPID"),
    "the host's processes": ({"podTemplate": pod(hostPID=True)}, "hostNetwork, hostPID"),
    "the host's IPC": ({"podTemplate": pod(hostIPC=True)}, "hostNetwork, hostPID"),
    "a host port": (
        {
            "podTemplate": pod(
                containers=[{"name": "runtime", "ports": [{"containerPort": 80, "hostPort": 80}]}]
            )
        },
        "hostPort are not allowed",
    ),
    "a privileged container": (
        {"podTemplate": container(privileged=True)},
        "must not be loosened",
    ),
    "a privileged init container": (
        {
            "podTemplate": pod(
                initContainers=[
                    {"name": "i", "image": "a", "securityContext": {"privileged": True}}
                ]
            )
        },
        "must not be loosened",
    ),
    "privilege escalation": (
        {"podTemplate": container(allowPrivilegeEscalation=True)},
        "must not be loosened",
    ),
    "an added capability": (
        {"podTemplate": container(capabilities={"add": ["SYS_ADMIN"]})},
        "must not be loosened",
    ),
    "capabilities that are kept": (
        {"podTemplate": container(capabilities={"drop": []})},
        "must not be loosened",
    ),
    "a container that runs as root": (
        {"podTemplate": container(runAsUser=0)},
        "must not be loosened",
    ),
    "a removed security context": (
        {"podTemplate": pod(containers=[{"name": "runtime", "securityContext": None}])},
        "must not be loosened",
    ),
    "a pod that runs as root": (
        {"podTemplate": pod(securityContext={"runAsNonRoot": False})},
        "spec.podTemplate.spec.securityContext:",
    ),
    "a removed pod security context": (
        {"podTemplate": pod(securityContext=None)},
        "spec.podTemplate.spec.securityContext:",
    ),
    "an unconfined seccomp profile": (
        {"podTemplate": pod(securityContext={"seccompProfile": {"type": "Unconfined"}})},
        "spec.podTemplate.spec.securityContext:",
    ),
    "an unconfined AppArmor profile": (
        {"podTemplate": container(appArmorProfile={"type": "Unconfined"})},
        "must not be loosened",
    ),
    "an unconfined AppArmor profile of the pod": (
        {"podTemplate": pod(securityContext={"appArmorProfile": {"type": "Unconfined"}})},
        "spec.podTemplate.spec.securityContext:",
    ),
    "an unconfined AppArmor profile of an annotation": (
        {"podTemplate": annotated("unconfined")},
        "spec.podTemplate.metadata.annotations: an AppArmor profile",
    ),
    "an unconfined SELinux type": (
        {"podTemplate": container(seLinuxOptions={"type": "spc_t"})},
        "must not be loosened",
    ),
    "an unconfined SELinux type of the pod": (
        {"podTemplate": pod(securityContext={"seLinuxOptions": {"type": "spc_t"}})},
        "spec.podTemplate.spec.securityContext:",
    ),
    "a process of a Windows host": (
        {"podTemplate": pod(securityContext={"windowsOptions": {"hostProcess": True}})},
        "spec.podTemplate.spec.securityContext:",
    ),
    "a service account": ({"serviceAccountName": "builder"}, "allowed: models, default"),
    "a service account in the pod template": (
        {"podTemplate": pod(serviceAccountName="builder")},
        "allowed: models, default",
    ),
    "a service account by its old name": (
        {"podTemplate": pod(serviceAccount="builder")},
        "allowed: models, default",
    ),
    "a token of the default account": (
        {"podTemplate": pod(automountServiceAccountToken=True)},
        "service account token",
    ),
    "a removed automount field": (
        {"podTemplate": pod(automountServiceAccountToken=None)},
        "service account token",
    ),
    "a projected token": (
        {
            "podTemplate": pod(
                volumes=[
                    {
                        "name": "t",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]},
                    }
                ]
            )
        },
        "service account token",
    ),
    "another host name": (
        {"route": routed("shop.example.com")},
        "allowed: *.ml.example.com, iris.example.com",
    ),
    "a host name that only ends alike": (
        {"route": routed("evilml.example.com")},
        "spec.route.hostnames",
    ),
    "every host of the listener": ({"route": routed()}, "spec.route.hostnames"),
    "another host for gRPC": (
        {"route": {**routed("a.ml.example.com"), "grpc": {"hostnames": ["shop.example.com"]}}},
        "spec.route.grpc.hostnames",
    ),
    "every host of an Ingress": ({"route": {"ingress": {}}}, "spec.route.hostnames"),
    "an annotation that runs configuration": (
        {"route": ingress("nginx.ingress.kubernetes.io/configuration-snippet")},
        "spec.route.ingress.annotations",
    ),
    "an annotation for an Ingress on every object": (
        {"objectMetadata": marked("nginx.ingress.kubernetes.io/configuration-snippet")},
        "spec.objectMetadata.annotations: an annotation is not allowed; allowed: example.com/",
    ),
    "an annotation that begins alike": (
        {"objectMetadata": marked("contacts")},
        "spec.objectMetadata.annotations",
    ),
    "another Prometheus": (
        {"scaling": scaled("http://169.254.169.254")},
        "allowed: http://prometheus.monitoring:9090",
    ),
    "a Prometheus that begins alike": (
        {"scaling": scaled("http://prometheus.monitoring:9090.evil.example")},
        "spec.scaling.metrics[].serverAddress",
    ),
    "another bucket": (
        {"model": {"uri": "s3://other/iris"}},
        "allowed prefixes: s3://team-models/, pvc://",
    ),
    "another endpoint": (
        {"model": {"uri": "s3://team-models/iris?endpoint=http://169.254.169.254"}},
        "allowed: https://minio.example.com",
    ),
    "a second endpoint": (
        {
            "model": {
                "uri": "s3://team-models/iris?endpoint=https://minio.example.com&endpoint=http://evil"
            }
        },
        "allowed: https://minio.example.com",
    ),
    "an endpoint that begins alike": (
        {"model": {"uri": "s3://team-models/iris?endpoint=https://minio.example.com.evil"}},
        "allowed: https://minio.example.com",
    ),
}
ALLOWED = {
    "nothing special": {},
    "a podTemplate with labels and a class": {
        "podTemplate": {
            "metadata": {"labels": {"team": "risk"}},
            "spec": {"runtimeClassName": "nvidia"},
        }
    },
    "nulls that remove harmless fields": {"podTemplate": pod(volumes=None, nodeSelector=None)},
    "a stricter container": {
        "podTemplate": container(
            readOnlyRootFilesystem=True, runAsUser=1000, capabilities={"drop": ["ALL"]}
        )
    },
    "profiles of the runtime and levels of SELinux": {
        "podTemplate": container(
            appArmorProfile={"type": "RuntimeDefault"}, seLinuxOptions={"level": "s0:c1,c2"}
        )
    },
    "an AppArmor profile of an annotation": {"podTemplate": annotated("localhost/models")},
    "a group for volumes": {"podTemplate": pod(securityContext={"fsGroup": 65532})},
    "an allowed account and its token": {
        "serviceAccountName": "models",
        "podTemplate": pod(automountServiceAccountToken=True),
    },
    "the default account": {"serviceAccountName": "default"},
    "allowed hosts": {"route": routed("a.ml.example.com", "iris.example.com")},
    "an allowed host for gRPC": {
        "route": {**routed("iris.example.com"), "grpc": {"hostnames": ["g.ml.example.com"]}}
    },
    "an allowed annotation": {"route": ingress("cert-manager.io/cluster-issuer")},
    "an allowed annotation on every object": {"objectMetadata": marked("example.com/contact")},
    "another allowed one": {"objectMetadata": marked("contact")},
    "the allowed Prometheus": {"scaling": scaled("http://prometheus.monitoring:9090/")},
    "an allowed bucket": {"model": {"uri": "s3://team-models/iris"}},
    "an allowed endpoint": {
        "model": {"uri": "s3://team-models/iris?endpoint=https://minio.example.com&region=eu"}
    },
}


def test_denied_fields_are_rejected_with_a_message(policy: Any, api: Api) -> None:
    policy("deny")
    wrong: dict[str, str] = {}
    for name, (spec, sentence) in DENIED.items():
        code, said = dry_run(api, model("m", **{"runtime": IMAGE, **spec}))
        if code == 0 or sentence not in said or "ValidatingAdmissionPolicy" not in said:
            wrong[name] = said

    assert wrong == {}


def test_fields_without_a_rule_are_allowed(policy: Any, api: Api) -> None:
    policy("deny")
    wrong: dict[str, str] = {}
    for name, spec in ALLOWED.items():
        code, said = dry_run(api, model("m", **{"runtime": IMAGE, **spec}))
        if code != 0 or "Warning" in said:
            wrong[name] = said

    assert wrong == {}


def test_audit_warns_and_allows(policy: Any, api: Api) -> None:
    policy("audit")

    code, said = dry_run(api, model("m", runtime=IMAGE, podTemplate=pod(hostNetwork=True)))

    assert code == 0, said
    assert "hostNetwork, hostPID, hostIPC and hostPort are not allowed" in said


@pytest.mark.parametrize(("mode", "passes"), [("deny", False), ("audit", True)])
def test_a_pod_template_that_cannot_be_judged_is_treated_as_a_violation(
    policy: Any, api: Api, mode: str, passes: bool
) -> None:
    policy(mode)

    code, said = dry_run(api, model("m", runtime=IMAGE, podTemplate=pod(volumes="none")))

    assert (code == 0) is passes, said
    assert "ValidatingAdmissionPolicy" in said or "Warning: Validation failed" in said


def test_a_star_allows_all_values_of_a_list(policy: Any, api: Api) -> None:
    policy("deny", **{name: ["*"] for name in VALUES})
    spec = {
        "serviceAccountName": "builder",
        "route": routed(),
        "scaling": scaled("http://anywhere"),
        "model": {"uri": "s3://other/iris?endpoint=http://anywhere"},
    }

    code, said = dry_run(api, model("m", runtime=IMAGE, **spec))

    assert code == 0, said


def test_a_model_from_before_the_policy_keeps_its_labels_and_can_be_deleted(
    policy: Any, api: Api
) -> None:
    api.apply(model("old", runtime=IMAGE, podTemplate=pod(hostNetwork=True)))
    policy("deny")

    api.patch("InferenceModel", "old", {"metadata": {"labels": {"team": "risk"}}})
    code, said = kubectl(
        api.kubeconfig,
        *("patch", "inferencemodel", "old", "-n", api.namespace, "--type=merge"),
        *("-p", '{"spec":{"replicas":2}}'),
    )

    assert code != 0
    assert "hostNetwork, hostPID" in said
    api.delete("InferenceModel", "old")


def test_every_documented_rule_is_part_of_the_policy() -> None:
    objects = rendered("--set", "admissionPolicy.mode=deny")
    rules = objects["ValidatingAdmissionPolicy", "moorage-models"]["spec"]["validations"]
    section = GUIDE.read_text().split("## What a model may ask for", 1)[1].split("\n## ", 1)[0]
    rows = [
        line.split("|")[1].strip().strip("`") for line in section.splitlines() if line[:3] == "| `"
    ]

    assert sorted(rows) == sorted({rule["message"].split(":", 1)[0] for rule in rules})


def test_the_policy_is_disabled_by_default() -> None:
    kinds = {kind for kind, _ in rendered()}

    assert not {kind for kind in kinds if kind.startswith("ValidatingAdmission")}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("mode=on", "/admissionPolicy/mode"),
        ("modelUris={s3://team}", "/admissionPolicy/modelUris/0"),
        ("modelEndpoints={minio.example.com}", "/admissionPolicy/modelEndpoints/0"),
        ("routeHostnames={*.}", "/admissionPolicy/routeHostnames/0"),
        ("ingressAnnotations={/x}", "/admissionPolicy/ingressAnnotations/0"),
        ("objectAnnotations={/x}", "/admissionPolicy/objectAnnotations/0"),
    ],
)
def test_an_invalid_value_is_rejected_by_name(value: str, named: str) -> None:
    said = refusal("--set", "image.registry=localhost", "--set", f"admissionPolicy.{value}")

    assert named in said
