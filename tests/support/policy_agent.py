"""Enforces NetworkPolicies on the single node of the local cluster while it runs.

`python -m support.policy_agent` reads the cluster of its environment twice a second and loads the
rules into the kernel; it removes them when it ends.
"""

import json
import signal
import subprocess
import sys
import time
from typing import Any

from support.policy_rules import TABLE, parse_cluster, ruleset

PAUSE_SECONDS = 0.5


def main() -> None:
    """Follow the cluster until SIGTERM."""
    signal.signal(signal.SIGTERM, _end)
    given = ""
    try:
        while True:
            wanted = desired()
            if wanted != given:
                subprocess.run(["nft", "-f", "-"], input=wanted, text=True, check=True)
                given = wanted
            time.sleep(PAUSE_SECONDS)
    finally:
        subprocess.run(["nft", "delete", "table", "ip", TABLE], check=given != "")


def _end(*_: object) -> None:
    sys.exit()


def desired() -> str:
    """The rules that the cluster's objects ask for now."""
    kinds = "networkpolicies,pods,namespaces"
    command = ["kubectl", "get", kinds, "--all-namespaces", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    by_kind: dict[str, list[dict[str, Any]]] = {"NetworkPolicy": [], "Pod": [], "Namespace": []}
    for found in json.loads(done.stdout)["items"]:
        by_kind[found["kind"]].append(found)
    cluster = parse_cluster(by_kind["Pod"], by_kind["Namespace"])
    return ruleset(by_kind["NetworkPolicy"], cluster)


if __name__ == "__main__":
    main()
