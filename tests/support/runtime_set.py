"""The InferenceRuntimes of charts/moorage-runtimes, and their containers as plain processes.

helm template --> runtimes --> container: command, args and variables --> expanded --> process
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from support.chart import template
from support.chart_rights import ROOT

CHART = ROOT / "charts" / "moorage-runtimes"
SECTIONS = (
    "moorage",
    "triton",
    "mlserver",
    "tensorflowServing",
    "vllm",
    "llamaCpp",
    "openvinoModelServer",
)
ALL = tuple(word for each in SECTIONS for word in ("--set", f"{each}.enabled=true"))


def runtimes(*words: str) -> dict[str, dict[str, Any]]:
    """Name to spec of the chart's runtimes, with further arguments of helm."""
    done = template(*words, chart=CHART)
    assert done.returncode == 0, done.stderr
    return {
        item["metadata"]["name"]: item["spec"]
        for item in yaml.safe_load_all(done.stdout)
        if item and item["kind"] == "InferenceRuntime"
    }


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with its references `$(NAME)` replaced, as by a kubelet.

    Source: Kubernetes, core/v1 Container: `$$` is a literal `$`, and a reference to an unknown
    variable stays as it is.
    """

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


def variables_of(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a container; each may refer to those before it."""
    found: dict[str, str] = {}
    for item in container.get("env", []):
        found[item["name"]] = expanded(item.get("value", ""), found)
    return found


def command_of(container: Mapping[str, Any]) -> list[str]:
    """The words that start the container's process."""
    variables = variables_of(container)
    words = [*container.get("command", []), *container.get("args", [])]
    return [expanded(word, variables) for word in words]
