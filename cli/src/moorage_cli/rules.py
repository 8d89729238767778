"""The CRD's CEL rules as predicates, for a machine without an API server; pure.

Each is found by the rule's own text, so that a rule that is changed in the CRD is missing here
until somebody has thought about it: a contract test compares the two sets. The sentences stay in
the CRD alone. Values have the CRD's defaults already.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

__all__ = ["RULES", "normalised"]

_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_PROBE_PATH = re.compile(r'/([!-"$&-~]|%[0-9A-Fa-f]{2})*')
_CONFIG_MAP = re.compile(rf"configmap://{_NAME}")
_CLAIM = re.compile(rf"pvc://{_NAME}(/.*)?")
_DOTS = re.compile(r"/\.\.?(/|\Z)")
_PATH = r"""(/[!-"$->@-~]*)?"""
_ENDPOINT = "endpoint=https?://[^/?#&@ ]+"
_PLACE = f"(region=[a-z0-9-]+|{_ENDPOINT})"
_SHA256 = "(#sha256=[0-9a-f]{64})?"
_BUCKET = "[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
# The URIs of schemes that are fetched, as the CRD has them.
_FETCHED = {
    "s3": rf"s3://{_BUCKET}{_PATH}(\?{_PLACE}(&{_PLACE})?)?{_SHA256}",
    "gs": rf"gs://{_BUCKET}{_PATH}(\?{_ENDPOINT})?{_SHA256}",
    "hf": (
        r"""hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[!"$-.0-;=A-~]+)?"""
        rf"{_PATH}(\?{_ENDPOINT})?"
    ),
    "oci": (
        r"oci://[A-Za-z0-9.:-]+/[a-z0-9]+([._/-]+[a-z0-9]+)*"
        r"(:[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})"
        r"""(\?path=[!"$%(->@-~]+)?"""
    ),
    "https": r"""https://[A-Za-z0-9.:-]+/([!-"$->@-~]*/)?[!-"$-.0->@-~]+(\?[!-"$-~]*)?"""
    + _SHA256,
}
_DIGITS = re.compile(r"[0-9]+")


def normalised(rule: str) -> str:
    """The rule with single spaces: how YAML folds it is no part of it."""
    return " ".join(rule.split())


def _get(value: Any, *path: str) -> Any:
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(name)
    return value


def _has_something_to_serve(spec: Any) -> bool:
    return _get(spec, "model", "uri") is not None or _get(spec, "runtime", "image") is not None


def _metadata_path_is_asked(spec: Any) -> bool:
    return spec["transport"] != "GRPC" or _get(spec, "endpoints", "metadata") is None


def _is_tensorflow(spec: Any) -> bool:
    return spec["protocol"] == "TensorFlowServing"


def _tensorflow_is_asked_over_http(spec: Any) -> bool:
    return not _is_tensorflow(spec) or spec["transport"] != "GRPC"


def _tensorflow_version_is_a_number(spec: Any) -> bool:
    version = _get(spec, "model", "version")
    return not _is_tensorflow(spec) or version is None or bool(_DIGITS.fullmatch(version))


def _tensorflow_has_the_readiness(spec: Any) -> bool:
    of_server = _get(spec, "health", "readinessTarget") == "Server"
    has_path = _get(spec, "endpoints", "ready") is not None
    return not _is_tensorflow(spec) or not of_server or has_path


def _has_served_scheme(uri: Any) -> bool:
    return uri.startswith(
        ("pvc://", "configmap://", "s3://", "gs://", "hf://", "oci://", "https://")
    )


def _is_well_formed(scheme: str, pattern: str) -> Callable[[Any], bool]:
    whole = re.compile(pattern)
    return lambda uri: not uri.startswith(f"{scheme}://") or bool(whole.fullmatch(uri))


def _has_something_to_fetch(model: Any) -> bool:
    told = _get(model, "credentials") is not None or _get(model, "download") is not None
    uri = _get(model, "uri")
    return not told or (uri is not None and not uri.startswith(("pvc://", "configmap://")))


def _image_volume_is_of_a_registry(model: Any) -> bool:
    uri = _get(model, "uri")
    return model["imageVolume"] == "Auto" or (uri is not None and uri.startswith("oci://"))


def _image_volume_is_pulled_by_the_node(model: Any) -> bool:
    told = _get(model, "credentials") is not None or _get(model, "download") is not None
    return model["imageVolume"] != "Always" or not told


def _names_a_config_map(uri: Any) -> bool:
    return not uri.startswith("configmap://") or bool(_CONFIG_MAP.fullmatch(uri))


def _names_a_claim(uri: Any) -> bool:
    return not uri.startswith("pvc://") or bool(_CLAIM.fullmatch(uri))


def _has_no_dots(uri: Any) -> bool:
    return not _DOTS.search(uri)


def _ports_differ(ports: Any) -> bool:
    return ports["http"] != ports["grpc"]


def _is_probe_path(path: Any) -> bool:
    return bool(_PROBE_PATH.fullmatch(path))


def _shares_are_of_a_rolling_update(rollout: Any) -> bool:
    shares = {"maxSurge", "maxUnavailable"} & set(rollout)
    return rollout["strategy"] == "RollingUpdate" or not shares


def _blue_green_is_of_its_strategy(rollout: Any) -> bool:
    return rollout["strategy"] == "BlueGreen" or "blueGreen" not in rollout


def _canary_has_gateways(rollout: Any) -> bool:
    return rollout["strategy"] != "Canary" or "canary" in rollout


def _weights_grow(steps: Any) -> bool:
    weights = [step["weight"] for step in steps]
    return weights == sorted(set(weights))


def _some_pod_may_be_replaced(rollout: Any) -> bool:
    none: list[Any] = [0, "0%"]
    surge, unavailable = rollout.get("maxSurge"), rollout.get("maxUnavailable")
    return surge not in none or unavailable not in [None, *none]


def _bounds_are_in_order(scaling: Any) -> bool:
    return scaling["minReplicas"] <= scaling["maxReplicas"]


def _zero_can_be_woken(scaling: Any) -> bool:
    return scaling["minReplicas"] > 0 or scaling["metric"] == "Prometheus"


def _has_name_with_pods(scaling: Any) -> bool:
    return (scaling["metric"] == "Pods") == ("metricName" in scaling)


def _is_metric_of_an_adapter(name: Any) -> bool:
    return not {"/", "%"} & set(name) and name not in {".", ".."}


def _has_query_with_prometheus(scaling: Any) -> bool:
    return (scaling["metric"] == "Prometheus") == ("prometheus" in scaling)


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
RULES: Mapping[str, Callable[[Any], bool]] = {
    "(has(self.model) && has(self.model.uri)) || (has(self.runtime) && has(self.runtime.image))": (
        _has_something_to_serve
    ),
    "self.transport != 'GRPC' || !has(self.endpoints) || !has(self.endpoints.metadata)": (
        _metadata_path_is_asked
    ),
    "self.protocol != 'TensorFlowServing' || self.transport != 'GRPC'": (
        _tensorflow_is_asked_over_http
    ),
    "self.protocol != 'TensorFlowServing' || !has(self.model) || !has(self.model.version) || "
    "self.model.version.matches('^[0-9]+$')": _tensorflow_version_is_a_number,
    "self.protocol != 'TensorFlowServing' || !has(self.health) || "
    "self.health.readinessTarget != 'Server' || "
    "(has(self.endpoints) && has(self.endpoints.ready))": _tensorflow_has_the_readiness,
    "self.matches('^(pvc|configmap|s3|gs|hf|oci|https)://')": _has_served_scheme,
    **{
        f"!self.startsWith('{scheme}://') || "
        f"self.matches('^{pattern.replace(chr(92), chr(92) * 2)}$')": (
            _is_well_formed(scheme, pattern)
        )
        for scheme, pattern in _FETCHED.items()
    },
    "(!has(self.credentials) && !has(self.download)) || "
    "(has(self.uri) && !self.uri.matches('^(pvc|configmap)://'))": _has_something_to_fetch,
    "self.imageVolume == 'Auto' || (has(self.uri) && self.uri.startsWith('oci://'))": (
        _image_volume_is_of_a_registry
    ),
    "self.imageVolume != 'Always' || (!has(self.credentials) && !has(self.download))": (
        _image_volume_is_pulled_by_the_node
    ),
    f"!self.startsWith('configmap://') || self.matches('^configmap://{_LABEL}$')": (
        _names_a_config_map
    ),
    f"!self.startsWith('pvc://') || self.matches('^pvc://{_LABEL}(/.*)?$')": _names_a_claim,
    r"!self.matches('/\\.\\.?(/|$)')": _has_no_dots,
    "self.strategy == 'RollingUpdate' || (!has(self.maxSurge) && !has(self.maxUnavailable))": (
        _shares_are_of_a_rolling_update
    ),
    "self.strategy != 'Canary' || has(self.canary)": _canary_has_gateways,
    "self.map(step, step.weight).isSorted() && "
    "self.all(step, self.exists_one(other, other.weight == step.weight))": _weights_grow,
    "self.strategy == 'BlueGreen' || !has(self.blueGreen)": _blue_green_is_of_its_strategy,
    "!has(self.maxSurge) || !(string(self.maxSurge) in ['0', '0%']) || "
    "(has(self.maxUnavailable) && !(string(self.maxUnavailable) in ['0', '0%']))": (
        _some_pod_may_be_replaced
    ),
    "self.http != self.grpc": _ports_differ,
    "self.minReplicas <= self.maxReplicas": _bounds_are_in_order,
    "self.minReplicas > 0 || self.metric == 'Prometheus'": _zero_can_be_woken,
    "(self.metric == 'Pods') == has(self.metricName)": _has_name_with_pods,
    "!self.matches('[/%]') && !(self in ['.', '..'])": _is_metric_of_an_adapter,
    "(self.metric == 'Prometheus') == has(self.prometheus)": _has_query_with_prometheus,
    """self.matches('^/([!-"$&-~]|%[0-9A-Fa-f]{2})*$')""": _is_probe_path,
}
