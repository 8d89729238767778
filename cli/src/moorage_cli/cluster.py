"""The cluster, as the commands see it: plain dictionaries in, sentences for what goes wrong.

The only module that knows the `kubernetes` package. Nothing is decided here.
"""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from kubernetes import client, config, stream, watch

from .failures import Failure
from .model_view import moment
from .port_forward import PortForward
from .why import EventView

__all__ = ["Cluster"]

GROUP, VERSION, PLURAL = "moorage.dev", "v1alpha1", "inferencemodels"
# kubectl waits for ever; a script that asks a dead cluster should not.
TIMEOUT_SECONDS = 30
EVENT_LIMIT = 500


class Cluster:
    """One cluster by a kubeconfig, or the one that the program runs in.

    Args:
        kubeconfig: Path of the file; empty for KUBECONFIG or ~/.kube/config.
        context: Name of the context; empty for the current one.

    Raises:
        Failure: There is no configuration that can be used.
    """

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        try:
            self.namespace = _current_namespace(kubeconfig, context)
            self._configuration = client.Configuration()
            config.load_kube_config(
                kubeconfig or None, context or None, client_configuration=self._configuration
            )
        except (ConfigException, OSError) as error:
            if kubeconfig or context or not self._load_in_cluster():
                raise Failure(f"no cluster: {error}") from error
        self._client = client.ApiClient(self._configuration)

    def _load_in_cluster(self) -> bool:
        """Take the configuration of the pod that this runs in; whether there is one."""
        configuration = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
        except ConfigException:
            return False
        self._configuration, self.namespace = configuration, "default"
        return True

    def models(self, namespace: str | None) -> list[dict[str, Any]]:
        """All models of a namespace; of all namespaces with None."""
        return self._list_models(namespace)["items"]

    def model(self, namespace: str, name: str) -> dict[str, Any]:
        """One model.

        Raises:
            Failure: It does not exist.
        """
        api: Any = client.CustomObjectsApi(self._client)
        with _told(f"inferencemodel {namespace}/{name}"):
            return api.get_namespaced_custom_object(
                GROUP, VERSION, namespace, PLURAL, name, _request_timeout=TIMEOUT_SECONDS
            )

    def changes(self, namespace: str | None, name: str) -> Iterator[dict[str, Any]]:
        """The models as they are, then each change of one, without end."""
        while True:
            listed = self._list_models(namespace, name)
            yield from listed["items"]
            yield from self._watched(namespace, name, listed["metadata"]["resourceVersion"])

    def _watched(self, namespace: str | None, name: str, since: str) -> Iterator[dict[str, Any]]:
        """Changes until the API server ends the watch, or has forgotten the beginning."""
        call, arguments = self._models_call(namespace, name)
        try:
            with _told("inferencemodels"):
                stream_of: Any = watch.Watch().stream
                for event in stream_of(call, *arguments, resource_version=since):
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        yield event["object"]
        except _Gone:
            return

    def events(self, namespace: str, names: list[str]) -> list[EventView]:
        """The events about objects of these names."""
        api: Any = client.CoreV1Api(self._client)
        found: list[EventView] = []
        for name in names:
            with _told(f"events of {namespace}"):
                answer = api.list_namespaced_event(
                    namespace,
                    field_selector=f"involvedObject.name={name}",
                    limit=EVENT_LIMIT,
                    _request_timeout=TIMEOUT_SECONDS,
                    _preload_content=False,
                )
                found += [_event(item) for item in json.loads(answer.data)["items"]]
        return found

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The pods that a selector selects."""
        api: Any = client.CoreV1Api(self._client)
        with _told(f"pods of {namespace}"):
            answer = api.list_namespaced_pod(
                namespace,
                label_selector=selector,
                _request_timeout=TIMEOUT_SECONDS,
                _preload_content=False,
            )
            return json.loads(answer.data)["items"]

    def pod_metrics(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """What the metrics API says of these pods.

        Raises:
            Failure: There is no metrics API, or it may not be read.
        """
        api: Any = client.CustomObjectsApi(self._client)
        with _told("the metrics API (metrics.k8s.io)"):
            return api.list_namespaced_custom_object(
                "metrics.k8s.io",
                "v1beta1",
                namespace,
                "pods",
                label_selector=selector,
                _request_timeout=TIMEOUT_SECONDS,
            )["items"]

    def forward(self, namespace: str, pod: str, port: int) -> PortForward:
        """A local port that leads to a pod's port."""

        def connect() -> tuple[Any, Callable[[], str]]:
            # One client a connection: `stream` replaces the client's own request function.
            api: Any = client.CoreV1Api(client.ApiClient(self._configuration))
            opened: Any = stream.portforward(
                api.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port)
            )

            def problem() -> str:
                return opened.error(port) or ""

            return opened.socket(port), problem

        return PortForward(connect)

    def _list_models(self, namespace: str | None, name: str = "") -> dict[str, Any]:
        call, arguments = self._models_call(namespace, name)
        with _told("inferencemodels"):
            return call(*arguments, _request_timeout=TIMEOUT_SECONDS)

    def _models_call(
        self, namespace: str | None, name: str
    ) -> tuple[Callable[..., Any], list[str]]:
        api: Any = client.CustomObjectsApi(self._client)

        def in_namespace(*arguments: str, **words: Any) -> Any:
            return api.list_namespaced_custom_object(*arguments, **_selected(name), **words)

        def everywhere(*arguments: str, **words: Any) -> Any:
            return api.list_cluster_custom_object(*arguments, **_selected(name), **words)

        if namespace is None:
            return everywhere, [GROUP, VERSION, PLURAL]
        return in_namespace, [GROUP, VERSION, namespace, PLURAL]


class _Gone(Exception):
    """The API server does not remember where the watch should begin (HTTP 410)."""


def _selected(name: str) -> dict[str, str]:
    return {"field_selector": f"metadata.name={name}"} if name else {}


def _current_namespace(kubeconfig: str, context: str) -> str:
    listed: Any = config.list_kube_config_contexts(kubeconfig or None)
    contexts, current = listed
    chosen = next((item for item in contexts if item["name"] == context), None)
    if context and chosen is None:
        known = ", ".join(item["name"] for item in contexts)
        raise Failure(f"--context: no context {context!r}; there are {known}")
    namespace = (chosen or current)["context"].get("namespace")
    return cast("str | None", namespace) or "default"


def _event(item: dict[str, Any]) -> EventView:
    about = item.get("involvedObject") or {}
    series = item.get("series") or {}
    times = (series.get("lastObservedTime"), item.get("lastTimestamp"), item.get("eventTime"))
    return EventView(
        kind=about.get("kind") or "",
        name=about.get("name") or "",
        type=item.get("type") or "",
        reason=item.get("reason") or "",
        message=item.get("message") or "",
        count=series.get("count") or item.get("count") or 1,
        last=moment(next((time for time in times if time), None)),
    )


@contextmanager
def _told(what: str) -> Generator[None]:
    """Turn what the client raises into a sentence."""
    try:
        yield
    except ApiException as error:
        if error.status == 410:
            raise _Gone from error
        raise Failure(f"{what}: {_sentence(error)}") from error
    except (HTTPError, OSError) as error:
        raise Failure(f"{what}: the API server does not answer: {error}") from error


def _sentence(error: ApiException) -> str:
    """The API server's own words."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError):
        message = error.reason
    if error.status == 404 and "not found" not in str(message):
        return f"{message} (is it installed in this cluster?)"
    return str(message)
