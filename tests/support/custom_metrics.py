"""Adapters for custom metrics, which give a HorizontalPodAutoscaler metrics of pods from
Prometheus.

    HPA controller --> API server --> adapter --> Prometheus

Ours is a few lines on top of the common library for such adapters. prometheus-adapter, which its
maintainers plan to replace with KEDA, is used if the machine has it.
"""

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.api_extension import LOCALHOST, Extension, extended
from support.control_plane import extension_flags, kubectl_of
from support.go_programs import ROOT, program
from support.listening import free_port
from support.operator_cluster import Api

MODULE = ROOT / "tests" / "integration" / "pod-metrics"
OURS, PROMETHEUS_ADAPTER = "pod-metrics", "prometheus-adapter"


@contextmanager
def answered_by(
    name: str, api: Api, url: str, rules: dict[str, Any], folder: Path
) -> Generator[None]:
    """The API group custom.metrics.k8s.io, until the block ends; skips without the program.

    Args:
        name: Of the adapter, `OURS` or `PROMETHEUS_ADAPTER`.
        api: The API as its administrator has it, in the namespace of the adapter's Service.
        url: Prometheus.
        rules: The configuration of prometheus-adapter; ours has none.
        folder: For the configuration and the log.
    """
    command = _command(name, rules, folder)
    extension = Extension(
        name, api.namespace, "custom.metrics.k8s.io", "v1beta1", free_port(), LOCALHOST
    )
    command += [f"--prometheus-url={url}", *extension_flags(api.kubeconfig, extension)]
    kubectl = kubectl_of(api.kubeconfig, api.namespace)
    with extended(kubectl, extension, command, folder / f"{name}.log"):
        yield


def _command(name: str, rules: dict[str, Any], folder: Path) -> list[str | Path]:
    if name == OURS:
        return [program(MODULE, ".")]
    found = shutil.which(name)
    if not found:
        pytest.skip(f"no {name} on the PATH")
    config = folder / "rules.yaml"
    config.write_text(json.dumps(rules))
    # by default it looks for new series every ten minutes
    return [found, f"--config={config}", "--metrics-relist-interval=2s", "--metrics-max-age=1m"]
