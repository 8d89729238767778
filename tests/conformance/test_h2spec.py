"""h2spec, a third-party test of HTTP/2 servers, against the native gRPC transport.

h2spec tests RFC 7540 with GET, so each of its requests is refused. Cases in which libnghttp2 and
h2spec disagree are listed with the reason.
"""

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support.go_programs import program

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

MODULE = Path(__file__).parent / "h2spec"
PACKAGE = "github.com/summerwind/h2spec/cmd/h2spec"
CASES = 145
CLOSED = "libnghttp2 keeps no state of closed streams, and drops frames on them"
PRIORITY = "libnghttp2 does not interpret PRIORITY, which is deprecated (RFC 9113, 5.3.2)"
OTHERWISE = {
    "closed: Sends a DATA frame after sending RST_STREAM frame": CLOSED,
    "closed: Sends a HEADERS frame after sending RST_STREAM frame": CLOSED,
    "closed: Sends a DATA frame": CLOSED,
    "closed: Sends a HEADERS frame": CLOSED,
    "Sends stream identifier that is numerically smaller than previous": CLOSED,
    "Sends PRIORITY frame that depend on itself": PRIORITY,
    "Sends a PRIORITY frame with 0x0 stream identifier": PRIORITY,
    "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a "
    "stream": "ends the connection, not the stream alone",
}
# GET is refused at once, so h2spec may find the stream closed before it sends the next frame.
ATTEMPTS = 10


def run(address: str, report: Path, *cases: str) -> dict[str, bool]:
    """Identifier and name of each case, and whether it failed."""
    host, port = address.split(":")
    command = [program(MODULE, PACKAGE), "-h", host, "-p", port, "-o", "1", "-j", report, *cases]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert report.exists(), done.stdout + done.stderr
    found = {}
    for suite in ET.parse(report).getroot().findall("testsuite"):
        for number, case in enumerate(suite.findall("testcase"), 1):
            found[f"{case.get('package')}/{number} {case.get('classname')}"] = len(case) > 0
    return found


def surprises(found: dict[str, bool]) -> list[str]:
    return [case for case, failed in found.items() if failed and name_of(case) not in OTHERWISE]


def name_of(case: str) -> str:
    return case.partition(" ")[2]


def test_h2spec(server, tmp_path):
    found = run(server.grpc, tmp_path / "report.xml")
    failed = surprises(found)
    for attempt in range(ATTEMPTS):
        if failed:
            identifiers = [case.partition(" ")[0] for case in failed]
            failed = surprises(run(server.grpc, tmp_path / f"{attempt}.xml", *identifiers))

    assert len(found) == CASES
    assert {name_of(case) for case, is_failed in found.items() if is_failed} >= set(OTHERWISE)
    assert not failed
