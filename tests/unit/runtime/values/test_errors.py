"""The reason of an error, and its entry in a protocol's table."""

import pytest

from moorage_runtime.values.errors import (
    ModelNotFound,
    NotFound,
    QueueFull,
    RuntimeFault,
    VersionNotFound,
    nearest,
    reason_of,
)

TABLE = {RuntimeFault: 500, NotFound: 404, VersionNotFound: 410}


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (NotFound("x"), 404),
        (ModelNotFound("x"), 404),
        (VersionNotFound("x"), 410),
        (QueueFull("x"), 500),
    ],
)
def test_the_nearest_class_decides(fault, status):
    assert nearest(TABLE, fault) == status


def test_an_expected_error_has_its_own_reason_and_others_are_internal():
    assert reason_of(QueueFull("x")) == "QueueFull"
    assert reason_of(KeyError("x")) == "Internal"


def test_an_error_has_its_message():
    fault = ModelNotFound("no model 'm'")

    assert fault.message == str(fault) == "no model 'm'"
