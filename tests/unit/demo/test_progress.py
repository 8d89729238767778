"""What the user sees of steps, and that nothing goes on after the demo stopped."""

import sys
import threading
import time

import pytest

import progress
from choice import DemoError
from progress import Progress, Tasks

PYTHON = sys.executable
SLEEP = [PYTHON, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
IGNORE = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);"
DEAF = [PYTHON, "-c", IGNORE + SLEEP[-1]]


@pytest.fixture
def shown(tmp_path):
    return Progress(tmp_path / "logs")


def test_a_step_says_when_it_starts_what_is_usual_and_how_long_it_took(shown, capsys):
    with shown.step("Building", "1 min"):
        pass
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "[ 0:00] Building ... (usually 1 min)",
        "[ 0:00] Building: done in 0 s",
    ]


def test_a_failed_step_is_not_said_to_be_done(shown, capsys):
    with pytest.raises(DemoError), shown.step("Building"):
        raise DemoError("no")
    assert capsys.readouterr().out == "[ 0:00] Building ...\n"


def test_a_long_step_gives_signs_of_life(shown, capsys, monkeypatch):
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.01)
    said = threading.Event()
    say = shown.say

    def heard(text):
        say(text)
        if "still building" in text:
            said.set()

    monkeypatch.setattr(shown, "say", heard)
    with shown.step("Building"):
        assert said.wait(10)


def test_a_command_returns_its_own_output_and_keeps_all_of_it(shown, tmp_path):
    shown.run("log", [PYTHON, "-c", "print('first')"])
    second = shown.run("log", [PYTHON, "-c", "print('second')"])

    assert second.splitlines()[1:] == ["second"]
    log = (tmp_path / "logs" / "log.log").read_text()
    assert "first\n" in log
    assert "second\n" in log


def test_a_failed_command_shows_the_end_of_its_log_and_where_it_is(shown, tmp_path):
    script = "for n in range(40): print('line', n)\nraise SystemExit(3)"

    with pytest.raises(DemoError) as failed:
        shown.run("build", [PYTHON, "-c", script])

    text = str(failed.value)
    assert "failed with exit code 3" in text
    assert str(tmp_path / "logs" / "build.log") in text
    assert "line 39" in text
    assert "line 20\n" not in text
    assert "PyPI" not in text


def test_a_command_that_downloads_is_tried_twice(shown, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "AGAIN_SECONDS", 0.0)
    script = f"open({str(tmp_path / 'made')!r}, 'x'); raise SystemExit(4)"
    command = [
        PYTHON,
        "-c",
        f"import os; os.path.exists({str(tmp_path / 'made')!r}) or exec({script!r})",
    ]

    assert shown.run("image", command, downloads="PyPI").startswith("$ ")

    assert "image failed, perhaps because of a download" in capsys.readouterr().out


def test_a_command_that_fails_to_download_twice_names_the_place(shown, monkeypatch):
    monkeypatch.setattr(progress, "AGAIN_SECONDS", 0.0)

    with pytest.raises(DemoError, match=r"(?s)exit code 3\..*Check that PyPI can be reached"):
        shown.run("build", [PYTHON, "-c", "raise SystemExit(3)"], downloads="PyPI")


def test_an_absent_command_is_named(shown):
    with pytest.raises(DemoError, match="no-such-program could not be started"):
        shown.run("log", ["no-such-program"])


def begin(shown, tmp_path, command):
    """Run a command in a thread; returns once it runs, with the thread and its failures."""
    failures = []

    def work():
        try:
            shown.run("long", command)
        except DemoError as error:
            failures.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    log = tmp_path / "logs" / "long.log"
    deadline = time.monotonic() + 20
    while not log.exists() or "\nbegun" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return thread, failures


@pytest.mark.parametrize("command", [SLEEP, DEAF], ids=["listening", "deaf"])
def test_stopping_ends_what_runs_and_starts_nothing_more(shown, tmp_path, monkeypatch, command):
    monkeypatch.setattr(progress, "STOP_SECONDS", 1.0)
    thread, failures = begin(shown, tmp_path, command)

    shown.stop()

    thread.join(10)
    assert not thread.is_alive()
    assert "failed with exit code -" in failures[0]
    with pytest.raises(DemoError, match="was not started, because the demo is stopping"):
        shown.run("log", [PYTHON, "-c", ""])


def test_tasks_run_after_those_that_they_need():
    done = []
    tasks = Tasks()
    tasks.add("a", lambda: done.append("a"))
    tasks.add("b", lambda: done.append("b"), after=["a"])
    tasks.add("c", lambda: done.append("c"), after=["a", "b"])
    tasks.join()
    assert done == ["a", "b", "c"]


def test_tasks_that_do_not_need_each_other_run_side_by_side():
    meeting = threading.Barrier(2, timeout=10)
    tasks = Tasks()
    tasks.add("a", lambda: meeting.wait() and None)
    tasks.add("b", lambda: meeting.wait() and None)
    tasks.join()


def test_the_first_failure_is_raised_and_what_needs_it_never_starts():
    started = []
    tasks = Tasks()

    def fail():
        raise DemoError("no base image")

    tasks.add("a", fail)
    tasks.add("b", lambda: started.append("b"), after=["a"])
    with pytest.raises(DemoError, match="no base image"):
        tasks.join()
    assert started == []
