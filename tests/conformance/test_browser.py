"""The status page in a real browser: it is drawn, fits the screen, and follows the server."""

import http.server
import re
import shutil
import struct
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.browser, pytest.mark.timeout(180)]

BROWSER = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), None)
# Reports the state of the page's script in the title, which --dump-dom shows.
PROBE = """<script>
const frame = document.createElement("iframe"); frame.width = 1280; frame.height = 800;
frame.src = "/"; document.documentElement.append(frame);
frame.onload = () => {
  const view = frame.contentDocument, table = view.querySelector(".table");
  const first = view.querySelector("main");
  setTimeout(() => {
    document.title = [
      view.querySelector("main") !== first, view.querySelector("#live").textContent,
      view.documentElement.scrollWidth <= 1280, table.scrollWidth <= table.clientWidth,
      getComputedStyle(view.body).fontSize, view.querySelectorAll("tbody tr").length,
      view.querySelectorAll("svg path").length > 0,
    ].join(" ");
  }, 5000);
};
</script>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Runs the browser on an address, and returns its output."""
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    profile = tmp_path_factory.mktemp("profile")

    def run(address: str, *options: str) -> str:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += [f"--user-data-dir={profile}", *options, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def proxy(server):
    """The server behind a proxy with one more page, /probe."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/probe":
                body, kind = PROBE.encode(), "text/html"
            else:
                answer = httpx.get(f"http://{server.http}{self.path}")
                body, kind = answer.content, answer.headers["content-type"]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listener.server_address[1]}"
    listener.shutdown()
    listener.server_close()
    thread.join()


def ask_something(server) -> None:
    for _ in range(20):
        httpx.post(f"http://{server.http}/v1/models/mnist:predict", json={"instances": [1.0]})


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (420, 800)])
def test_the_page_renders(browser, server, tmp_path, width, height):
    ask_something(server)
    picture = tmp_path / "page.png"

    browser(f"http://{server.http}/", f"--window-size={width},{height}", f"--screenshot={picture}")

    assert size(picture) == (width, height)
    # a page without style or with one colour is smaller
    assert picture.stat().st_size > 15_000


def test_the_page_fits_the_window_and_follows_the_server(browser, server, proxy):
    ask_something(server)

    document = browser(f"{proxy}/probe", "--virtual-time-budget=8000", "--dump-dom")

    title = re.search(r"<title>(.*?)</title>", document)
    assert title, document
    replaced, live, page_fits, table_fits, font, rows, drawn = title[1].split()
    assert (replaced, live) == ("true", "live")
    assert (page_fits, table_fits) == ("true", "true")
    assert (font, drawn) == ("14px", "true")
    assert int(rows) >= 20


def size(picture: Path) -> tuple[int, int]:
    """Width and height from the header of a PNG."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
