"""The objects beside models that commands write and read: uploads, claims, Secrets, pods, logs.

Makes no decisions; `cluster` has the models.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes import client
from moorage_cli.ask.answers import check_deletion, groups_of, items_of, lines_of, object_of
from moorage_cli.ask.api_failures import Missing, failures_of

__all__ = ["DEPLOY_MANAGER", "Objects"]

# A manager of its own: a field that is left out of the next deployment is removed, and edits by
# the other commands stay.
DEPLOY_MANAGER = "moorage-deploy"
TIMEOUT_SECONDS = 30
# A ConfigMap of the maximum size over a slow connection.
WRITE_SECONDS = 120
ASKED: dict[str, Any] = {"_request_timeout": TIMEOUT_SECONDS, "_preload_content": False}
MODELS = ("moorage.dev", "v1alpha1")
KINDS = {
    "ConfigMap": "config_map",
    "PersistentVolumeClaim": "persistent_volume_claim",
    "Pod": "pod",
    "Secret": "secret",
}
APPLY = "application/apply-patch+yaml"


class Objects:
    """Objects of a namespace, by kind and name.

    Args:
        api_client: The connection to the API server.
    """

    def __init__(self, api_client: Any) -> None:
        self._core: Any = client.CoreV1Api(api_client)
        self._apps: Any = client.AppsV1Api(api_client)
        self._custom: Any = client.CustomObjectsApi(api_client)
        self._groups: Any = client.ApisApi(api_client)

    def find(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """One object, or None if it does not exist."""
        try:
            with failures_of(f"{kind} {namespace}/{name}"):
                read = getattr(self._core, f"read_namespaced_{KINDS[kind]}")
                return object_of(read(name, namespace, **ASKED))
        except Missing:
            return None

    def labelled(self, kind: str, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The objects of a kind with these labels."""
        with failures_of(f"{kind} objects of {namespace}"):
            read = getattr(self._core, f"list_namespaced_{KINDS[kind]}")
            return items_of(read(namespace, label_selector=selector, **ASKED))

    def create(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object; its name may be generated."""
        kind, metadata = document["kind"], document["metadata"]
        with failures_of(f"{kind} {metadata['namespace']}/{metadata.get('name', '')}"):
            create = getattr(self._core, f"create_namespaced_{KINDS[kind]}")
            return object_of(
                create(
                    metadata["namespace"],
                    dict(document),
                    field_manager=DEPLOY_MANAGER,
                    **ASKED,
                )
            )

    def apply(self, document: Mapping[str, Any], *, force: bool = False) -> dict[str, Any]:
        """Write an object by server-side apply.

        Raises:
            Conflict: Another manager has set a field to another value.
            Failure: The object is refused.
        """
        kind, metadata = document["kind"], document["metadata"]
        where = (metadata["name"], metadata["namespace"])
        options: dict[str, Any] = {
            "field_manager": DEPLOY_MANAGER,
            "force": force,
            "_content_type": APPLY,
            "_request_timeout": WRITE_SECONDS,
            "_preload_content": False,
        }
        with failures_of(f"{kind} {where[1]}/{where[0]}"):
            if kind == "InferenceModel":
                answer = self._custom.patch_namespaced_custom_object(
                    *MODELS, where[1], "inferencemodels", where[0], dict(document), **options
                )
            else:
                call = getattr(self._core, f"patch_namespaced_{KINDS[kind]}")
                answer = call(*where, dict(document), **options)
            return object_of(answer)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; one that does not exist counts as deleted, and a pod ends at once."""
        options: dict[str, Any] = {"grace_period_seconds": 0} if kind == "Pod" else {}
        try:
            with failures_of(f"{kind} {namespace}/{name}"):
                delete = getattr(self._core, f"delete_namespaced_{KINDS[kind]}")
                check_deletion(delete(name, namespace, **options, **ASKED))
        except Missing:
            return

    def delete_model(self, namespace: str, name: str) -> None:
        """Delete an InferenceModel.

        Raises:
            Missing: It does not exist.
        """
        with failures_of(f"inferencemodel {namespace}/{name}"):
            check_deletion(
                self._custom.delete_namespaced_custom_object(
                    *MODELS,
                    namespace,
                    "inferencemodels",
                    name,
                    propagation_policy="Background",
                    **ASKED,
                )
            )

    def deployments_everywhere(self, selector: str) -> list[dict[str, Any]]:
        """The Deployments of all namespaces with these labels."""
        with failures_of("deployments of all namespaces"):
            return items_of(
                self._apps.list_deployment_for_all_namespaces(label_selector=selector, **ASKED)
            )

    def has_group(self, name: str) -> bool:
        """Whether the API server serves an API group."""
        with failures_of("API groups"):
            return name in groups_of(self._groups.get_api_versions(**ASKED))

    def log(
        self, namespace: str, pod: str, container: str, *, follow: bool, previous: bool, tail: int
    ) -> Iterator[str]:
        """The lines of a container's log; with `follow`, until the container ends."""
        with failures_of(f"log of pod {namespace}/{pod}"):
            answer = self._core.read_namespaced_pod_log(
                pod,
                namespace,
                container=container,
                follow=follow,
                previous=previous,
                tail_lines=tail,
                _preload_content=False,
                _request_timeout=None if follow else TIMEOUT_SECONDS,
            )
            for line in lines_of(answer):
                yield line.decode("utf-8", "replace")
