import pytest

from moorage_operator.kube import errors

TYPED = (
    "failed to create typed patch object (default/iris; apps/v1, Kind=Deployment): "
    ".spec.template.spec.nope: field not declared in schema"
)

QUANTITY = (
    "failed to convert new object (default/iris; apps/v1, Kind=Deployment) to proper version: "
    "unable to convert unstructured object to apps/v1, Kind=Deployment: quantities must match the "
    "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (400, "bad", errors.Invalid),
        (401, "who", errors.Unauthorized),
        (403, "no", errors.Forbidden),
        (404, "none", errors.NotFound),
        (409, "other", errors.Conflict),
        (410, "old", errors.Gone),
        (418, "tea", errors.ApiError),
        (422, "wrong", errors.Invalid),
        (429, "slow", errors.Throttled),
        (500, "etcd", errors.ServerError),
        (500, TYPED, errors.Invalid),
        (500, QUANTITY, errors.Invalid),
        (503, "busy", errors.ServerError),
    ],
)
def test_a_status_is_converted_to_its_error_class(code, message, kind):
    error = errors.from_status(code, {"message": message, "reason": "R"})

    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, "R", message)


@pytest.mark.parametrize("body", [None, [], "text", {}, {"message": None}])
def test_an_answer_without_a_status_has_a_message(body):
    assert errors.from_status(502, body).message == "the API server answered 502"


def test_a_status_names_the_object():
    status = {"message": "gone", "details": {"name": "iris", "kind": "pods"}}

    assert errors.from_status(404, status).name == "iris"


@pytest.mark.parametrize("status", [{}, {"details": None}, {"details": []}, {"details": {}}])
def test_a_status_may_name_no_object_and_no_reason(status):
    error = errors.from_status(404, status)

    assert (error.name, error.reason) == ("", "")


def test_an_error_without_an_answer_has_only_a_message():
    error = errors.Unreachable("connection refused")

    assert str(error) == error.message == "connection refused"
    assert (error.code, error.reason, error.name) == (0, "", "")
    assert error.retry_after_seconds is None


def test_retry_after_is_read():
    assert errors.from_status(429, {}, retry_after="7").retry_after_seconds == 7
    assert errors.from_status(429, {}, retry_after="soon").retry_after_seconds is None


def test_a_failed_step_is_collected_and_the_next_one_follows() -> None:
    failures: list[errors.ApiError] = []
    failure = errors.Conflict("edited since", code=409)

    with errors.collected(failures):
        raise failure
    with errors.collected(failures):
        pass

    assert failures == [failure]


def test_no_step_follows_once_another_process_leads() -> None:
    failures: list[errors.ApiError] = []

    with pytest.raises(errors.NotLeading), errors.collected(failures):
        raise errors.NotLeading("not the leader")

    assert failures == []
