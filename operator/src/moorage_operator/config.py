"""The operator's own settings as far as the plan depends on them: one pure value.

`settings.py` makes it from flags and environment; `plan` and the resource builders read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OperatorConfig"]


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """What a plan needs to know of this installation.

    Attributes:
        runtime_image: Image of the bundled runtime, used where the spec names none.
        image_pull_policy: Pull policy of the bundled image; empty: Kubernetes decides by the tag.
        cluster_domain: DNS domain of Services, for the URLs in the status.
        default_resources: Container resources where the spec gives none.
        namespace: Namespace of the operator's own pods; empty: unknown.
        image_volumes: Whether pods may have images as volumes where a model says `Auto`.
    """

    runtime_image: str
    image_pull_policy: str = ""
    cluster_domain: str = "cluster.local"
    default_resources: Mapping[str, Any] = field(default_factory=dict[str, Any])
    namespace: str = ""
    image_volumes: bool = False
