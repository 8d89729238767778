"""Equal values once: what thousands of objects have in common is kept for all of them together.

    observe, poller --> shared --> store

Images, owned fields, verdicts, tensors are the same in most models of a cluster; as values of
their own they would be most of the operator's memory. Only immutable values may be shared.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

from .answers import ModelInfo, ProbeResult

REMEMBERED = 4096
"""Values that were met last. One that is met again later is kept a second time, which costs memory
and nothing else."""


@lru_cache(maxsize=REMEMBERED)
def shared(value: Any) -> Any:
    """A value that is equal to this one: the one that was met first."""
    return value


def share_answers(result: ProbeResult) -> ProbeResult:
    """The same result, made of shared parts."""
    return replace(
        result,
        live=shared(result.live),
        ready=shared(result.ready),
        model_ready=shared(result.model_ready),
        spoken=shared(result.spoken),
        server=shared(result.server),
        model=_share_model(result.model) if result.model else None,
    )


def _share_model(model: ModelInfo) -> ModelInfo:
    parts = replace(
        model,
        versions=shared(model.versions),
        inputs=shared(model.inputs),
        outputs=shared(model.outputs),
    )
    return shared(parts)
