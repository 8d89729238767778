"""Debian's Prometheus, which scrapes its targets every second."""

import json
import re
import shutil
import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.api_extension import process
from support.go_programs import ROOT
from support.listening import free_port, wait_listening

UNPACKED = ROOT / "build" / "prometheus"


def find() -> Path:
    """The program: that of the machine, or the unpacked package next to the other programs."""
    if own := shutil.which("prometheus"):
        return Path(own)
    found = UNPACKED / "usr" / "bin" / "prometheus"
    if not found.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "prometheus"], cwd=UNPACKED, check=True)
        (package,) = UNPACKED.glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, UNPACKED], check=True)
    return found


def server(address: str) -> dict[str, Any]:
    """The scrape configuration of one server, HOST:PORT."""
    return {"job_name": "models", "static_configs": [{"targets": [address]}]}


def found(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The targets that `kubernetes_sd_configs` with the role `pod` would find, for a file.

    Debian's Prometheus is built without that discovery; the labels of a target are in the
    configuration's reference (kubernetes_sd_config, pod).
    """
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": _meta(pod, port),
        }
        for pod in pods
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if pod["status"].get("podIP")
    ]


def _meta(pod: Mapping[str, Any], port: Mapping[str, Any]) -> dict[str, str]:
    metadata = pod["metadata"]
    present = {re.sub(r"\W", "_", label): "true" for label in metadata["labels"]}
    return {
        "__meta_kubernetes_namespace": metadata["namespace"],
        "__meta_kubernetes_pod_name": metadata["name"],
        "__meta_kubernetes_pod_container_port_name": port["name"],
        **{f"__meta_kubernetes_pod_labelpresent_{label}": each for label, each in present.items()},
    }


@contextmanager
def watching(scrape: dict[str, Any], folder: Path) -> Generator[str]:
    """Prometheus with the metrics of one scrape configuration; its own URL."""
    config = folder / "prometheus.yml"
    config.write_text(
        json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]})
    )
    port = free_port()
    command = [
        find(),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with process(command, folder / "prometheus.log") as started:
        wait_listening(started, port)
        yield f"http://127.0.0.1:{port}"
