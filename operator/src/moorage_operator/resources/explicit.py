"""Pod fields that are always set explicitly, so that an edit can change them.

The API server fills in a default once and keeps it. Server-side apply never updates or removes
such a field, because no manager owns it: a Deployment whose image moves from `server:latest` to
`server:2` keeps `imagePullPolicy: Always`, and one whose `serviceAccountName` is removed keeps the
account in the deprecated mirror field `serviceAccount`. A field that the operator applies itself
follows the spec.

Source: Kubernetes, core/v1 defaults (SetDefaults_Container) and the conversion of PodSpec, which
copies `serviceAccountName` to `serviceAccount` and back.
"""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["explicit", "pull_policy"]

DEFAULT_ACCOUNT = "default"
CONTAINER_LISTS = ("initContainers", "containers")


def explicit(pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Set the service account and the pull policy of every container explicitly.

    Malformed parts are left unchanged: the API server reports what is wrong with them.
    """
    account = pod_spec.get("serviceAccountName") or pod_spec.get("serviceAccount")
    account = account or DEFAULT_ACCOUNT
    result = {**pod_spec, "serviceAccountName": account, "serviceAccount": account}
    for key in CONTAINER_LISTS:
        containers: object = pod_spec.get(key)
        if isinstance(containers, list):
            result[key] = [_with_pull_policy(each) for each in cast("list[object]", containers)]
    return result


def _with_pull_policy(container: object) -> object:
    if not isinstance(container, Mapping):
        return container
    fields = cast("Mapping[str, Any]", container)
    image = fields.get("image")
    if fields.get("imagePullPolicy") or not isinstance(image, str) or not image:
        return fields
    return {**fields, "imagePullPolicy": pull_policy(image)}


def pull_policy(image: str) -> str:
    """Return the default of Kubernetes: `Always` for the tag `latest` or without a tag."""
    name, _, digest = image.partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    is_latest = tag == "latest" or not (tag or digest)
    return "Always" if is_latest else "IfNotPresent"
