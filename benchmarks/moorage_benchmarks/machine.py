"""Facts about the machine that a reader needs to judge the numbers; no names and no paths."""

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from moorage_benchmarks import procfs

PACKAGES = ("onnxruntime", "grpcio", "uvloop", "httptools", "orjson", "kopf")


def facts() -> Mapping[str, str]:
    """Processor, memory, kernel and the versions of what the programs are made of."""
    total = procfs.parse_total_memory(Path("/proc/meminfo").read_text())
    return {
        "processor": procfs.parse_processor(Path("/proc/cpuinfo").read_text()),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{total / 2**30:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }
