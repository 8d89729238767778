"""Debian's Prometheus, which asks one server every second."""

import json
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from support.api_extension import process
from support.go_programs import ROOT
from support.listening import free_port, wait_listening

UNPACKED = ROOT / "build" / "prometheus"


def find() -> Path:
    """The program: the machine's own, or the package's, unpacked beside the other programs."""
    if own := shutil.which("prometheus"):
        return Path(own)
    found = UNPACKED / "usr" / "bin" / "prometheus"
    if not found.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "prometheus"], cwd=UNPACKED, check=True)
        (package,) = UNPACKED.glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, UNPACKED], check=True)
    return found


@contextmanager
def watching(address: str, folder: Path) -> Generator[str]:
    """Prometheus with the metrics of HOST:PORT; its own URL."""
    config = folder / "prometheus.yml"
    scrape = {"job_name": "models", "static_configs": [{"targets": [address]}]}
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
