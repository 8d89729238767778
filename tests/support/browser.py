"""A headless Chromium, driven through chromedriver by the WebDriver protocol.

The Debian packages are chromium and chromium-driver; `make browser` installs them.
"""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from support.operator_cluster import eventually

DRIVER = shutil.which("chromedriver")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
ABSENT = "Chromium and chromedriver are not installed; make browser installs them"
SECONDS = 60
DRIVER_STARTS = 5
# WebDriver, "Keyboard actions": keys without a character.
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Shift": "\ue008"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def is_installed() -> bool:
    return bool(DRIVER and CHROMIUM)


@contextmanager
def chromium(folder: Path) -> Iterator["Browser"]:
    """A browser with a profile in a folder."""
    assert CHROMIUM is not None, ABSENT
    process, port = _started_driver()
    try:
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        arguments += ["--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-US"]
        arguments.append(f"--user-data-dir={folder}")
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS) as client:
            made = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}}).json()
            assert "sessionId" in made["value"], made
            session = f"/session/{made['value']['sessionId']}"
            browser = Browser(client, session)
            try:
                yield browser
            finally:
                client.delete(session)
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def _started_driver() -> tuple[subprocess.Popen[str], str]:
    """A chromedriver and its port.

    It lets IPv4 choose the port and then binds the same one on IPv6, where another process may
    hold it; it exits then, and the next one chooses another port.
    """
    assert DRIVER is not None, ABSENT
    for _ in range(DRIVER_STARTS):
        process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                return process, found[1]
        process.wait(timeout=SECONDS)
    raise AssertionError(f"chromedriver exited without a port {DRIVER_STARTS} times")


class Browser:
    """One window of the browser; scripts are bodies of functions."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._session = session

    def open(self, url: str) -> None:
        self._post("url", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns; a promise is awaited."""
        return self._post("execute/sync", script=script, args=list(arguments))

    def eventually(self, what: str, script: str, *arguments: Any, seconds: float = 20) -> Any:
        """The first truthy value of a script."""
        try:
            return eventually(what, lambda: self.run(script, *arguments), seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page:\n{self.text('body')}") from error

    def text(self, selector: str) -> str:
        """The visible text of an element; empty if it does not exist."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def reads(self, selector: str, text: str, *, seconds: float = 20) -> None:
        """Wait until an element contains a text."""
        script = "return document.querySelector(arguments[0])?.innerText.includes(arguments[1])"
        self.eventually(f"{selector}: {text!r}", script, selector, text, seconds=seconds)

    def click(self, selector: str, text: str = "") -> None:
        """Click an element as a user does, who sees it; of several, the one with the text."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .find((each) => each.innerText.trim() === arguments[1] || !arguments[1])"""
        element = self.eventually(f"{selector} {text}", script, selector, text)
        self._post(f"element/{element[ELEMENT]}/click")

    def press(self, *keys: str) -> None:
        """Press keys one after the other, such as `Tab`; `Shift+Tab` holds the first one."""
        actions: list[dict[str, str]] = []
        for key in keys:
            names = [key] if key == "+" else key.split("+")
            values = [KEYS.get(name, name) for name in names]
            actions += [{"type": "keyDown", "value": each} for each in values]
            actions += [{"type": "keyUp", "value": each} for each in reversed(values)]
        self._post("actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self.press(*text)

    @property
    def focused(self) -> str:
        """The accessible name of the element with the focus."""
        return self.run(
            """const at = document.activeElement;
            return at.getAttribute("aria-label") || at.innerText.trim() || at.tagName"""
        )

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.command("Emulation.setDeviceMetricsOverride", **sizes)

    def prefer(self, scheme: str) -> None:
        """Set the color scheme that the user prefers, light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.command("Emulation.setEmulatedMedia", features=[feature])

    def picture(self, file: Path) -> None:
        """A PNG of what the window shows."""
        file.write_bytes(base64.b64decode(self._get("screenshot")))

    def command(self, name: str, **words: Any) -> Any:
        """A command of the Chrome DevTools protocol."""
        return self._post("goog/cdp/execute", cmd=name, params=words)

    @contextmanager
    def another_window(self) -> Iterator[None]:
        """The block sees a window of its own; the first one stays open."""
        first = self._get("window")
        self._post("window", handle=self._post("window/new", type="tab")["handle"])
        try:
            yield
        finally:
            self._client.delete(f"{self._session}/window")
            self._post("window", handle=first)

    def requested_hosts(self) -> set[str]:
        """The hosts of all requests since the last call."""
        found: set[str] = set()
        for entry in self._post("se/log", type="performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.add(urlsplit(message["params"]["request"]["url"]).netloc)
        return found - {""}

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the last call."""
        entries = self._post("se/log", type="browser")
        return [each["message"] for each in entries if each["level"] in {"SEVERE", "WARNING"}]

    def _post(self, path: str, **body: Any) -> Any:
        return self._value(self._client.post(f"{self._session}/{path}", json=body))

    def _get(self, path: str) -> Any:
        return self._value(self._client.get(f"{self._session}/{path}"))

    def _value(self, response: httpx.Response) -> Any:
        value = response.json()["value"]
        assert response.is_success, value
        return value
