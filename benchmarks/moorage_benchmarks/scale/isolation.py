"""A process tree with a network and process ids of its own.

    run.py -> unshare -> `python -m moorage_benchmarks.scale` -> control plane, nodes, operator

Pods' addresses are then routed to loopback without touching the machine's network, no port is
taken from anybody, and whatever was started ends with the first process, also after a crash.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moorage_benchmarks.programs import ROOT, BenchmarkError, run

BENCHMARKS = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build" / "benchmarks" / "operator"
BINARIES = ROOT / "build" / "localcluster" / "bin"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl", "helm", "kwok")
UNSHARE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


def run_isolated(words: Sequence[str]) -> dict[str, Any]:
    """The outcome of `python -m moorage_benchmarks.scale WORDS` in a process tree of its own.

    Raises:
        BenchmarkError: This is not root, a program is missing, or the measurement failed.
    """
    if os.geteuid() != 0:
        raise BenchmarkError("namespaces and routes need root; run the command as root")
    missing = [name for name in PROGRAMS if not (BINARIES / name).exists()]
    if missing:
        raise BenchmarkError(
            f"not built: {', '.join(missing)}; run `localcluster/cluster install --fake-nodes`"
        )
    with tempfile.TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome.json"
        command = [*UNSHARE, sys.executable, "-m", "moorage_benchmarks.scale"]
        command += [
            *words,
            f"--operator={make_environment()}",
            f"--folder={folder}",
            f"--outcome={outcome}",
        ]
        env = {**os.environ, "PYTHONPATH": str(BENCHMARKS), "TMPDIR": folder}
        try:
            done = subprocess.run(command, env=env, check=False)
        except OSError as error:
            raise BenchmarkError(f"cannot run {UNSHARE[0]}: {error.strerror}") from error
        if done.returncode:
            raise BenchmarkError(f"the measurement ended with status {done.returncode}; see above")
        found: dict[str, Any] = json.loads(outcome.read_text())
        return found


def make_environment() -> Path:
    """The operator with what its image has and nothing more; the path of its command.

    The development tools bring the `kubernetes` package, which kopf imports where it finds it: 19
    MiB that no installation of the operator has.

    Raises:
        BenchmarkError: A package could not be had.
    """
    run([sys.executable, "-m", "venv", str(ENVIRONMENT)])
    pip = [str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    requirements = str(ROOT / "operator" / "requirements.txt")
    run([*pip, "--require-hashes", "-r", requirements])
    run([*pip, "--no-deps", "--force-reinstall", str(ROOT / "operator")])
    return ENVIRONMENT / "bin" / "moorage-operator"


def open_network(pods: str) -> None:
    """Bring loopback up and have every address of the pods' range answered there.

    Raises:
        BenchmarkError: It failed; the text has what `ip` said.
    """
    run(["ip", "link", "set", "lo", "up"])
    run(["ip", "route", "add", "local", pods, "dev", "lo"])
