import msgspec
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from moorage_runtime.workers.collected import families
from moorage_runtime.workers.shared import messages
from moorage_runtime.workers.shared.messages import (
    Answer,
    Answers,
    Ask,
    Begin,
    Do,
    Family,
    State,
    VersionState,
    View,
)
from moorage_runtime.workers.shared.totals import counters, total

FAMILY = Family("f", "Help.", "gauge", [("f", {"a": "b"}, 1.5)])
STATE = State(is_listening=True, is_ready=True, models=(VersionState("m", "1", "READY", ""),))


@pytest.mark.parametrize(
    "message",
    [
        Begin(1, 2, takes_over=True, is_online=False, unloaded=("m",)),
        View((STATE, State())),
        Do(1, "load", "m"),
        Answers(1, (Answer(2, "ModelFailed", "no"), Answer(3, families=(FAMILY,)))),
    ],
)
def test_a_supervisor_is_understood(message):
    data = messages.encode(message)
    head, body = data[: messages.LENGTH_BYTES], data[messages.LENGTH_BYTES :]

    assert messages.decode_length(head) == len(body)
    assert messages.decode_to_worker(body) == message


@pytest.mark.parametrize(
    "message", [STATE, Ask(1, "collect"), Answer(1, families=(FAMILY,)), Answer(1, "r", "m")]
)
def test_a_worker_is_understood(message):
    body = messages.encode(message)[messages.LENGTH_BYTES :]

    assert messages.decode_from_worker(body) == message


def test_a_message_of_the_other_side_is_refused():
    with pytest.raises(msgspec.ValidationError):
        messages.decode_to_worker(messages.encode(STATE)[messages.LENGTH_BYTES :])


def family(name: str, kind: str, *samples: tuple[str, dict[str, str], float]) -> Family:
    return Family(name, "Help.", kind, list(samples))


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([], ()),
        ([[FAMILY]], (FAMILY,)),
        ([[FAMILY], []], (FAMILY,)),
        (
            [
                [family("c", "counter", ("c_total", {"m": "a"}, 1), ("c_total", {"m": "b"}, 2))],
                [family("c", "counter", ("c_total", {"m": "a"}, 5))],
            ],
            (family("c", "counter", ("c_total", {"m": "a"}, 6), ("c_total", {"m": "b"}, 2)),),
        ),
        (
            [
                [family("moorage_model_ready", "gauge", ("moorage_model_ready", {}, ready))]
                for ready in (1, 0, 1)
            ],
            (family("moorage_model_ready", "gauge", ("moorage_model_ready", {}, 0)),),
        ),
        (
            [[family("c", "counter", ("c_created", {}, when))] for when in (7.0, 5.0)],
            (family("c", "counter", ("c_created", {}, 5.0)),),
        ),
        (
            [[family("python_info", "gauge", ("python_info", {"v": "3"}, 1))]] * 2,
            (family("python_info", "gauge", ("python_info", {"v": "3"}, 1)),),
        ),
    ],
)
def test_the_metrics_of_several_workers_are_summed(workers, expected):
    assert total(workers) == expected


def test_every_kind_of_metric_is_transferred_with_its_type():
    registry = CollectorRegistry()
    Counter("c", "Help.", registry=registry).inc(2)
    Gauge("g", "Help.", registry=registry).set(3)
    Histogram("h", "Help.", buckets=(1, 2), registry=registry).observe(1.5)

    found = families(registry)

    assert [(f.name, f.kind) for f in found] == [
        ("c", "counter"),
        ("g", "gauge"),
        ("h", "histogram"),
    ]
    assert [f.name for f in counters(found)] == ["c", "h"]
    doubled = {name: value for f in total([found, found]) for name, _, value in f.samples}
    assert (doubled["c_total"], doubled["h_sum"], doubled["h_count"]) == (4, 3.0, 2)
