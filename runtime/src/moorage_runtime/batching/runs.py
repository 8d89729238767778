"""What a worker thread does with the requests that the batcher gives it: one call, one answer.

    batcher -> alone | merged | trial -> model -> Done -> batcher

Nothing is raised: every request has its outcome, and one that fails takes no other with it.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from moorage_runtime.batching import merge
from moorage_runtime.errors import ModelFailed
from moorage_runtime.inference import InferRequest
from moorage_runtime.tensors import Tensor

Infer = Callable[[InferRequest], tuple[Tensor, ...]]
Outcome = tuple[Tensor, ...] | Exception


class Done(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes:
        outcomes: Outputs or error of each request, in their order.
        seconds: Of the one run that answered all; 0 when there were several, or it failed.
        verdict: Whether a merged run gave what single ones gave; None when nothing was learnt.
        why: What is wrong with the merged run.
    """

    outcomes: Sequence[Outcome]
    seconds: float = 0.0
    verdict: bool | None = None
    why: str = ""


def alone(infer: Infer, requests: Sequence[InferRequest]) -> Done:
    """One run for each request."""
    started = time.perf_counter()
    outcomes = [_outcome(infer, request) for request in requests]
    seconds = time.perf_counter() - started
    is_one = len(requests) == 1 and not isinstance(outcomes[0], Exception)
    return Done(outcomes, seconds if is_one else 0.0)


def merged(infer: Infer, requests: Sequence[InferRequest]) -> Done:
    """One run for all; where that fails each runs alone, so that the others have their answer."""
    started = time.perf_counter()
    parts = _together(infer, requests)
    if not isinstance(parts, Exception):
        return Done(parts, time.perf_counter() - started)
    done = alone(infer, requests)
    if _has_failed(done):
        return done
    return Done(done.outcomes, verdict=False, why=f"a merged run failed: {parts}")


def trial(infer: Infer, requests: Sequence[InferRequest]) -> Done:
    """The single runs answer; a merged one, with contrasting rows, is compared with them."""
    done = alone(infer, requests)
    if _has_failed(done):
        return done
    parts = _together(infer, [*requests, merge.contrast(requests[0])])
    if isinstance(parts, Exception):
        return Done(done.outcomes, verdict=False, why=f"a merged run failed: {parts}")
    for found, expected in zip(parts, done.outcomes, strict=False):
        if isinstance(expected, Exception) or not merge.agree(found, expected):
            why = "a merged run gave other numbers than single ones"
            return Done(done.outcomes, verdict=False, why=why)
    return Done(done.outcomes, verdict=True)


def _has_failed(done: Done) -> bool:
    return any(isinstance(outcome, Exception) for outcome in done.outcomes)


def _together(
    infer: Infer, requests: Sequence[InferRequest]
) -> Sequence[tuple[Tensor, ...]] | Exception:
    """The outputs of each from one run for all, or why there are none."""
    sizes = [merge.rows(request) for request in requests]
    try:
        return merge.split(infer(merge.merge(requests)), sizes)
    except Exception as error:  # noqa: BLE001 - the requests run alone then, whatever it is
        return error


def _outcome(infer: Infer, request: InferRequest) -> Outcome:
    try:
        return infer(request)
    except Exception as error:  # noqa: BLE001 - it is for the one who asked, whatever it is
        return error
    except BaseException as error:  # noqa: BLE001 - as sys.exit() in a model's code
        return ModelFailed(f"the model raised {type(error).__name__}")
