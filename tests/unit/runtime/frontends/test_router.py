"""Which frontend handles a path, and the form of an error before one does."""

import tracemalloc

import pytest

from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse
from moorage_runtime.frontends.http.router import Mount, Router


def mount(prefix: str) -> Mount:
    """A frontend that answers with its prefix and the path, and has its own form for errors."""
    return Mount(
        prefix,
        lambda each: HttpResponse(200, f"{prefix} {each.path}".encode()),
        lambda path, status, message: HttpResponse(status, f"{path}: {message}".encode()),
    )


def request(path: str) -> HttpRequest:
    return HttpRequest("GET", path, "", {}, b"")


ROUTER = Router(mount("/v2"), mount("/v1/models"), mount("/"))


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/v2", "/v2"),
        ("/v2/", "/v2"),
        ("/v2/models/m/infer", "/v2"),
        ("/v1/models", "/v1/models"),
        ("/v1/models/m:predict", "/v1/models"),
        ("/", "/"),
    ],
)
def test_a_path_is_handled_by_the_frontend_of_its_prefix(path, prefix):
    answer = ROUTER.handle(request(path))

    assert (answer.status, answer.body) == (200, f"{prefix} {path}".encode())
    assert ROUTER.fault(path, 413, "too large").body == f"{path}: too large".encode()


@pytest.mark.parametrize(
    "path",
    ["/v3", "/v22", "/v2x/models", "/v1", "/v1/modelsx", "/v1/other", "//", "//v2", "v2/x", ""],
)
def test_a_path_without_a_frontend_is_an_error_in_json(path):
    answer = ROUTER.handle(request(path))
    fault = ROUTER.fault(path, 413, "too large")

    assert (answer.status, answer.content_type) == (404, b"application/json")
    assert answer.body == f'{{"error":"no such path: {path}"}}'.encode()
    assert (fault.status, fault.content_type) == (413, b"application/json")
    assert fault.body == b'{"error":"too large"}'


def test_another_handler_may_answer_the_paths_without_a_frontend():
    router = Router(mount("/v2"), otherwise=lambda each: HttpResponse(200, each.path.encode()))

    assert router.handle(request("/own")).body == b"/own"
    assert router.handle(request("/v2/x")).body == b"/v2 /v2/x"
    assert router.fault("/own", 413, "too large").body == b'{"error":"too large"}'


@pytest.mark.parametrize("prefix", ["/v2", "/v2/other"])
def test_two_frontends_with_the_same_first_segment_are_refused(prefix):
    with pytest.raises(ValueError, match=r"^two frontends for /v2$"):
        Router(mount("/v2"), mount(prefix))


def test_many_long_paths_take_little_memory():
    router = Router(mount("/v2"))

    tracemalloc.start()
    try:
        for number in range(2000):
            path = f"/v2/{number}".ljust(8000, "x")
            assert router.handle(request(path)).body == f"/v2 {path}".encode()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept < 3 * 1024 * 1024
