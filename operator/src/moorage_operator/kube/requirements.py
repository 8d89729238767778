"""Checks the version of Kubernetes; pure.

An older API server silently drops `preStop.sleep` from a pod, so pods with other images than the
bundled one would lose requests when they terminate.

Source: Kubernetes feature gate PodLifecycleSleepAction, on by default from 1.30.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["too_old"]

LEAST = (1, 30)
# Some providers report a minor version such as "29+".
NUMBER = re.compile(r"[0-9]+")


def too_old(version: Mapping[str, Any]) -> str:
    """Return why an API server of this version cannot be used; "" if it can or is unknown.

    Args:
        version: The answer to `/version`.
    """
    found = [NUMBER.match(str(version.get(part))) for part in ("major", "minor")]
    numbers = tuple(int(each[0]) for each in found if each)
    if len(numbers) != len(LEAST) or numbers >= LEAST:
        return ""
    shown = version.get("gitVersion") or ".".join(map(str, numbers))
    return (
        f"the API server runs Kubernetes {shown}, which drops the sleep action of preStop hooks; "
        f"upgrade the cluster to {LEAST[0]}.{LEAST[1]} or later"
    )
