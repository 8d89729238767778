"""The operator's rights as granted by the chart: its service account and a kubeconfig for it."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "localcluster" / "bin"
CHART = ROOT / "charts" / "moorage"
RELEASE = "moorage"
NAMESPACE = "moorage-system"
LEASE = ("--lease-namespace", NAMESPACE, "--lease-name", f"{RELEASE}-operator")
"""Settings of the operator: the lease that the chart's role grants."""
TEMPLATES = ("templates/rbac.yaml", "templates/serviceaccount.yaml")


def operators_kubeconfig(
    kubeconfig: Path,
    folder: Path,
    watch_namespaces: Sequence[str] = (),
    *,
    release: str = RELEASE,
) -> Path:
    """A kubeconfig with exactly the rights that the chart's roles grant the operator.

    Args:
        kubeconfig: The administrator's.
        folder: The folder of the new one.
        watch_namespaces: The chart's value of that name; the namespaces must exist.
        release: The name of the release; its service account has the same name.
    """
    manifests = _run(
        # helm's own guess, without a cluster, is a version that the chart does not support
        *("helm", "template", release, CHART, "--namespace", NAMESPACE, "--kube-version", "1.34"),
        *("--set", "image.registry=localhost"),
        *("--set-json", f"watchNamespaces={json.dumps(list(watch_namespaces))}"),
        *(word for each in TEMPLATES for word in ("--show-only", each)),
    )
    admin = ("kubectl", "--kubeconfig", kubeconfig)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    _run(*admin, "apply", "-f", "-", stdin=json.dumps(namespace))
    _run(*admin, "apply", "-f", "-", stdin=manifests)
    token = _run(*admin, "create", "token", release, "--namespace", NAMESPACE, "--duration=2h")
    content = json.loads(kubeconfig.read_text())
    content["users"] = [
        {"name": user["name"], "user": {"token": token}} for user in content["users"]
    ]
    made = folder / "operators-kubeconfig"
    made.write_text(json.dumps(content))
    return made


def _run(*words: str | Path, stdin: str = "") -> str:
    program, *rest = words
    done = subprocess.run(
        [PROGRAMS / program, *rest],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout
