"""Whether the node of the cluster under test accepts pods, and if not, why.

Without this check, each test on a node that is out of order waits for its own deadline.
"""

import json
from typing import Any

from support.kubectl import Kubectl
from support.waiting import eventually

RECOVERY_SECONDS = 90
"""A node that was just restarted loses its taints after its next status, within this time."""


def wait_schedulable(kubectl: Kubectl, seconds: float = RECOVERY_SECONDS) -> None:
    """Wait until no node repels pods.

    Raises:
        AssertionError: A node still does; the message has its taints and conditions.
    """
    eventually(
        "every node accepts pods",
        lambda: repelling(kubectl.items("nodes")),
        lambda found: not found,
        seconds,
    )


def repelling(nodes: list[dict[str, Any]]) -> list[str]:
    """One line for each node that repels pods: its taints, and the conditions behind them."""
    return [
        f"{node['metadata']['name']}: {json.dumps(node['spec'].get('taints', []))} "
        f"{json.dumps([each for each in node['status']['conditions'] if _is_bad(each)])}"
        for node in nodes
        if node["spec"].get("taints") or node["spec"].get("unschedulable")
    ]


def _is_bad(condition: dict[str, Any]) -> bool:
    wanted = "True" if condition["type"] == "Ready" else "False"
    return condition["status"] != wanted
