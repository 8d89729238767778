import io
import json
import logging
import time
from pathlib import Path

import pytest

from moorage_operator.process import logs
from moorage_operator.values.observed import ObjectKey

pytestmark = pytest.mark.usefixtures("own_logging")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_a_json_line_has_the_model_and_the_fields(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)

    with logs.about(ObjectKey("ns", "iris")):
        logging.getLogger("x").warning("child was edited", extra={"fields": ["a"]})
    logging.getLogger("x").info("outside")

    inside, outside = map(json.loads, stream.getvalue().splitlines())
    assert inside.pop("time").endswith("Z")
    assert inside == {
        "level": "warning",
        "message": "child was edited",
        "namespace": "ns",
        "model": "iris",
        "fields": ["a"],
        "logger": "x",
    }
    assert "model" not in outside


def test_a_text_line_quotes_values_with_spaces(stream: io.StringIO) -> None:
    logs.configure("text", "info", stream)

    fields = {"error": 'a "b"', "code": 7, "spent": 0.12345, "grade": "XL", "pair": "a=b"}
    logging.getLogger("x").info("done", extra=fields)

    shown = 'error="a \\"b\\"" code=7 spent=0.123 grade=XL pair="a=b"'
    assert stream.getvalue().endswith(f"INFO    done {shown}\n")


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_time_is_in_utc_with_milliseconds(
    form: str, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    logs.configure(form, "info", stream)
    attributes = {"name": "x", "levelno": logging.INFO, "levelname": "INFO", "msg": "done"}
    record = logging.makeLogRecord({**attributes, "created": 1_700_000_000.0625})

    logging.getLogger("x").handle(record)
    monkeypatch.undo()
    time.tzset()

    assert "2023-11-14T22:13:20.062Z" in stream.getvalue()
    assert stream.getvalue().startswith(("2023-", '{"time": "2023-'))


def test_a_field_of_any_type_is_shown_as_text(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)

    logging.getLogger("x").info("read", extra={"file": Path("/models")})

    assert json.loads(stream.getvalue())["file"] == "/models"


@pytest.mark.parametrize("form", ["json", "text"])
def test_an_exception_is_shown_with_its_stack(form: str, stream: io.StringIO) -> None:
    logs.configure(form, "info", stream)

    try:
        {}["ours"]
    except KeyError:
        logging.getLogger("x").exception("broke")

    assert "KeyError: 'ours'" in stream.getvalue()
    if form == "json":
        assert json.loads(stream.getvalue())["exception"].startswith("Traceback")
    else:
        assert "broke\nTraceback" in stream.getvalue()


def test_libraries_are_quiet_and_the_level_applies(stream: io.StringIO) -> None:
    logs.configure("json", "warning", stream)

    logging.getLogger("moorage").info("hidden")
    logging.getLogger("kopf.objects").info("hidden")
    logging.getLogger("httpx").info("hidden")
    logging.getLogger("kopf._core.reactor.running").error("hidden")

    assert stream.getvalue() == ""


def test_only_errors_of_kopf_about_repeated_requests_become_warnings(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)
    client = logging.getLogger("kopf._cogs.clients.watching")

    client.error("Request attempt #1 failed; will retry: GET https://host -> Refused()")
    client.error("Request attempt #2/3 failed; SSL closed; will re-authenticate: GET https://host")
    client.error("Request attempt #3/3 failed; escalating: GET https://host -> Refused()")
    logging.getLogger("x").error("Request attempt #1 failed; will retry: GET https://host")

    levels = [json.loads(line)["level"] for line in stream.getvalue().splitlines()]
    assert levels == ["warning", "warning", "error", "error"]


def test_such_a_warning_is_marked_like_others_in_text(stream: io.StringIO) -> None:
    logs.configure("text", "info", stream)

    logging.getLogger("kopf.x").error("Request attempt #1 failed; will retry: GET https://host")

    assert "Z WARNING Request attempt" in stream.getvalue()
