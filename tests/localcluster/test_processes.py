"""A process is the cluster's by its id and start time, or by its whole command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from moorage_localcluster import layout, processes
from moorage_localcluster.layout import ClusterError, Ports

# a started process is left to itself on purpose
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
]


@pytest.fixture
def plane(tmp_path):
    return layout.control_plane(tmp_path, Ports())


@pytest.fixture
def sleeper(plane):
    # the folder makes the command line one of its own
    command = [*SLEEPER, str(plane.state)]
    processes.start(plane, "sleeper", command)
    yield command
    processes.stop(plane, "sleeper", command)


@pytest.mark.parametrize(
    ("name", "ticks"),
    [("(etcd)", 4711), ("(a b)", 4711), ("(a) S 1 (b)", 4711), ("())", 4711)],
)
def test_the_start_time_is_field_22_whatever_the_name_holds(name, ticks):
    after = ["S", *(str(number) for number in range(4, 22)), str(ticks), "99"]
    assert processes.parse_start_ticks(f"17 {name} {' '.join(after)}\n") == ticks


def test_a_started_process_is_alive_until_it_is_stopped(plane, sleeper):
    assert processes.is_alive(plane, "sleeper")

    processes.stop(plane, "sleeper", sleeper)

    assert not processes.is_alive(plane, "sleeper")
    assert processes.find(lambda words: words == sleeper) == []


def test_a_second_start_leaves_the_first_alone(plane, sleeper):
    before = processes.read_record(plane, "sleeper")
    processes.start(plane, "sleeper", sleeper)
    assert processes.read_record(plane, "sleeper") == before


def test_a_record_of_another_start_time_is_not_our_process(plane, sleeper):
    record = processes.read_record(plane, "sleeper")
    other = processes.Record(record.pid, record.start_ticks - 1)

    processes.end(other)

    assert processes.is_alive(plane, "sleeper")


@pytest.mark.parametrize("text", ["", "{", '{"pid": 1}', '{"pid": "x", "start_ticks": 1}'])
def test_an_unreadable_record_is_no_process(plane, text):
    plane.pids.mkdir()
    (plane.pids / "etcd.json").write_text(text)
    assert not processes.is_alive(plane, "etcd")


def test_a_process_whose_record_was_lost_is_adopted_and_stopped(plane, sleeper):
    record = processes.read_record(plane, "sleeper")
    (plane.pids / "sleeper.json").unlink()
    assert not processes.is_alive(plane, "sleeper")

    processes.adopt(plane, "sleeper", sleeper)
    assert processes.read_record(plane, "sleeper") == record

    (plane.pids / "sleeper.json").unlink()
    processes.stop(plane, "sleeper", sleeper)
    assert processes.start_ticks(record.pid) is None


def test_a_command_line_that_only_mentions_the_same_folder_is_not_adopted(plane, sleeper):
    (plane.pids / "sleeper.json").unlink()
    processes.adopt(plane, "sleeper", [*sleeper, "--more"])
    assert processes.read_record(plane, "sleeper") is None
    processes.adopt(plane, "sleeper", sleeper)


def test_a_process_deaf_to_term_is_killed(plane):
    processes.start(plane, "deaf", DEAF)
    record = processes.read_record(plane, "deaf")
    processes.stop(plane, "deaf", DEAF, patience_seconds=0.3)
    assert processes.start_ticks(record.pid) is None


def test_waiting_for_a_process_that_ends_shows_the_end_of_its_log(plane):
    processes.start(plane, "etcd", [sys.executable, "-c", "raise SystemExit('disk is full')"])

    with pytest.raises(ClusterError, match=r"(?s)no answer: etcd exited.* ends with:.*full"):
        processes.wait_for(plane, "etcd", "no answer", lambda: False, 30)


def test_waiting_ends_at_its_deadline(plane, sleeper):
    with pytest.raises(ClusterError, match="no answer: timed out after 0 s"):
        processes.wait_for(plane, "sleeper", "no answer", lambda: False, 0)


def test_a_failed_command_says_what_it_said():
    with pytest.raises(ClusterError, match=r"failed with exit code 3: no such thing"):
        processes.run(["sh", "-c", "echo no such thing >&2; exit 3"])


def test_an_absent_command_is_named():
    with pytest.raises(ClusterError, match="no-such-program could not be started"):
        processes.run([Path("no-such-program")])
    assert not processes.succeeds(["no-such-program"])


def test_a_zombie_has_ended():
    child = subprocess.Popen(["true"])
    try:
        # the child is reaped only below, so it stays a zombie once it ended
        while processes.start_ticks(child.pid) is not None:
            pass
    finally:
        child.wait()
