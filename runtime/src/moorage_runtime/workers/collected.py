"""The metrics of all workers, for frontends that read a registry.

/metrics -> Collected.refresh -> link -> every worker's families -> total -> the frontend
"""

from collections.abc import Awaitable, Iterable

from prometheus_client import CollectorRegistry, Metric

from moorage_runtime.frontends.http.message import Answer, Handler, HttpRequest
from moorage_runtime.workers.link import Link
from moorage_runtime.workers.shared.messages import Family


class Collected(CollectorRegistry):
    """A registry with the metrics that were last collected.

    Args:
        link: Connection to the other workers.
    """

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self._families: tuple[Family, ...] = ()

    def collect(self) -> Iterable[Metric]:
        """The metrics of the last ``refresh``."""
        return map(_metric, self._families)

    async def refresh(self) -> None:
        """Collect the metrics of every worker."""
        (answer,) = await self._link.ask("collect")
        self._families = answer.families

    def refreshing(self, handler: Handler) -> Handler:
        """Wrap a handler so that it refreshes first."""

        async def handle(request: HttpRequest) -> Answer:
            await self.refresh()
            answer = handler(request)
            return await answer if isinstance(answer, Awaitable) else answer

        return handle


def families(registry: CollectorRegistry) -> tuple[Family, ...]:
    """This worker's metrics, in the form of a message."""
    return tuple(
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            [(sample.name, dict(sample.labels), float(sample.value)) for sample in metric.samples],
        )
        for metric in registry.collect()
    )


def _metric(family: Family) -> Metric:
    metric = Metric(family.name, family.documentation, family.kind)
    for name, labels, value in family.samples:
        metric.add_sample(name, labels, value)
    return metric
