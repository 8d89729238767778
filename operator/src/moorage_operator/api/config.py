"""The settings of the operator that a plan depends on.

`settings.py` creates this value from flags and variables; `plan` and the resource builders use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OperatorConfig"]


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """Configuration of one installation.

    Attributes:
        runtime_image: Image of the bundled runtime, used if the spec names no image.
        image_pull_policy: Pull policy of the bundled image; if empty, Kubernetes chooses by tag.
        image_pull_secrets: Names of the pull Secrets of pods that use the bundled image.
        cluster_domain: DNS domain of Services, for the URLs in the status.
        default_resources: Container resources if the spec sets none.
        namespace: Namespace of the operator's own pods; empty if unknown.
        name_label: The label app.kubernetes.io/name of the operator's own pods.
        image_volumes: Whether models with `imageVolume: Auto` use image volumes.
    """

    runtime_image: str
    image_pull_policy: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    default_resources: Mapping[str, Any] = field(default_factory=dict[str, Any])
    namespace: str = ""
    name_label: str = "moorage"
    image_volumes: bool = False
