"""Who may do what: the operator what the chart grants it, this program everything.

    helm template, two service accounts -> their tokens -> kubeconfigs

Both have a token, as every installed operator has. The API server remembers for some seconds that
a token is good, but verifies a client certificate at each request, which takes a third of a
millisecond of the cores that everybody here shares.
"""

import json
from pathlib import Path

from moorage_benchmarks.programs import ROOT, kubectl, run
from moorage_benchmarks.scale.isolation import BINARIES

RELEASE = "moorage"
NAMESPACE = "moorage-system"
ADMINISTRATOR = "benchmark"
# Longer than the longest measure.
TOKEN_VALID = "24h"
TEMPLATES = ("templates/rbac.yaml", "templates/serviceaccount.yaml")


def make_kubeconfigs(admin: Path, folder: Path) -> tuple[Path, Path]:
    """Kubeconfigs of the operator and of this program.

    Args:
        admin: The one that came with the control plane, with a client certificate.
        folder: Where the new ones go.

    Raises:
        BenchmarkError: helm or kubectl failed.
    """
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl(admin, "apply", "-f", "-", stdin=json.dumps(namespace))
    kubectl(admin, "apply", "-f", "-", stdin=_chart())
    own = ("--namespace", NAMESPACE)
    kubectl(admin, "create", "serviceaccount", ADMINISTRATOR, *own)
    bound = ("--clusterrole=cluster-admin", f"--serviceaccount={NAMESPACE}:{ADMINISTRATOR}")
    kubectl(admin, "create", "clusterrolebinding", ADMINISTRATOR, *bound)
    return _kubeconfig(admin, folder, RELEASE), _kubeconfig(admin, folder, ADMINISTRATOR)


def _chart() -> str:
    """What the chart grants the operator, as manifests."""
    # helm's own guess, without a cluster, is a version that the chart does not support
    words = [str(BINARIES / "helm"), "template", RELEASE, str(ROOT / "charts" / "moorage")]
    words += [f"--namespace={NAMESPACE}", "--kube-version=1.34", "--set=image.registry=localhost"]
    return run([*words, *(f"--show-only={template}" for template in TEMPLATES)])


def _kubeconfig(admin: Path, folder: Path, account: str) -> Path:
    options = (f"--namespace={NAMESPACE}", f"--duration={TOKEN_VALID}")
    token = kubectl(admin, "create", "token", account, *options).strip()
    content = json.loads(admin.read_text())
    content["users"] = [
        {"name": user["name"], "user": {"token": token}} for user in content["users"]
    ]
    made = folder / f"{account}.kubeconfig"
    made.write_text(json.dumps(content))
    return made
