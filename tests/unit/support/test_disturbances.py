"""What counts as a restart or an error of the product's own containers."""

import json
from typing import Any

from support.disturbances import error_lines, more_restarts, restarts_of


def pod(uid: str, count: int, image: str = "runtime:1") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": f"pod-{uid}"},
        "spec": {"containers": [{"name": "runtime", "image": image}]},
        "status": {"containerStatuses": [{"name": "runtime", "restartCount": count}]},
    }


def test_only_restarts_of_our_own_images_are_counted() -> None:
    before = restarts_of([pod("a", 1), pod("b", 0)], ["runtime:1"])
    after = restarts_of([pod("a", 1), pod("b", 2), pod("c", 3, "other:1")], ["runtime:1"])

    assert more_restarts(before, after) == ["container runtime of pod pod-b restarted 2 times"]


def test_restarts_of_a_new_pod_are_counted() -> None:
    assert more_restarts({}, restarts_of([pod("new", 1)], ["runtime:1"])) != []
    assert more_restarts({}, restarts_of([pod("new", 0)], ["runtime:1"])) == []


def test_unexpected_error_lines_are_found() -> None:
    lines = [
        json.dumps({"level": "error", "message": "unexpected error in reconcile"}),
        json.dumps({"level": "error", "message": "background task ended"}),
        json.dumps({"level": "warning", "message": "error"}),
        "no json: error",
        "[1]",
    ]

    assert error_lines("\n".join(lines), ["background task ended"]) == [lines[0]]
