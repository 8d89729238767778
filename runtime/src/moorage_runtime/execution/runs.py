"""The work of a thread on the requests of one run.

    batcher -> alone | merged -> model -> Done -> batcher

These functions do not raise: every request has an outcome, and a failed request does not affect
the others.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from moorage_runtime.backends.containment import fault_of
from moorage_runtime.execution.batching import merge
from moorage_runtime.values.errors import RuntimeFault
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Tensor

Infer = Callable[[InferRequest], tuple[Tensor, ...]]
Outcome = tuple[Tensor, ...] | RuntimeFault


class Done(msgspec.Struct, frozen=True):
    """The result of a run.

    Attributes:
        outcomes: Outputs or error of each request, in their order.
        seconds: Duration of a merged run; 0 if there were several runs, or it failed.
        unfit: Why a merged run failed although every request succeeded individually; "" otherwise.
    """

    outcomes: Sequence[Outcome]
    seconds: float = 0.0
    unfit: str = ""


def alone(infer: Infer, requests: Sequence[InferRequest]) -> Done:
    """One run for each request."""
    started = time.perf_counter()
    outcomes = [_outcome(infer, request) for request in requests]
    seconds = time.perf_counter() - started
    is_one = len(requests) == 1 and not isinstance(outcomes[0], Exception)
    return Done(outcomes, seconds if is_one else 0.0)


def merged(infer: Infer, requests: Sequence[InferRequest]) -> Done:
    """One run for all requests; if it fails, each runs alone, so that the valid ones succeed."""
    started = time.perf_counter()
    sizes = [merge.rows(request) for request in requests]
    try:
        parts = merge.split(infer(merge.merge(requests)), sizes)
    except BaseException as error:  # noqa: BLE001 - the requests then run alone
        why = fault_of(error, is_logged=False).message
    else:
        return Done(parts, time.perf_counter() - started)
    done = alone(infer, requests)
    if any(isinstance(outcome, RuntimeFault) for outcome in done.outcomes):
        return done
    return Done(done.outcomes, unfit=why)


def _outcome(infer: Infer, request: InferRequest) -> Outcome:
    try:
        return infer(request)
    except BaseException as error:  # noqa: BLE001 - reported to the client
        return fault_of(error)
