"""InferenceRuntimes of the operator's pure packages, built from the facts that a test needs."""

from typing import Any

from moorage_operator.api.inference_runtime import InferenceRuntime, parse_inference_runtime
from moorage_operator.values.runtimes import Runtimes

LABELS = {"ns": {"team": "risk"}, "other": {"team": "shop"}}


def runtime(name: str, **spec: Any) -> InferenceRuntime:
    """A parsed runtime."""
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    return parse_inference_runtime({"metadata": metadata, "spec": spec})


def runtimes(*listed: InferenceRuntime, **facts: Any) -> Runtimes:
    """All runtimes, in a cluster with the namespaces `ns` and `other`."""
    facts = {"namespace_labels": LABELS, **facts}
    return Runtimes({each.name: each for each in listed}, **facts)


TRITON = runtime("triton", image="triton:1", formats=[{"name": "onnx", "priority": 2}])
DEFAULT = runtime("standard", default=True)
