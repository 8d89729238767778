"""Starts, finds and ends only the processes of the cluster.

Each start writes a record with the process id and the kernel's start time of that process. A
process is ours only while both match, so a reused id is never signalled. If a start was
interrupted before its record, the command line identifies the process: it contains the cluster's
folders.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from moorage_localcluster.files import write_whole
from moorage_localcluster.layout import ClusterError, Layout

TERM_SECONDS = 15.0
POLL_SECONDS = 0.1
LOG_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Record:
    """A started process: its id and its start time in clock ticks since boot."""

    pid: int
    start_ticks: int


def parse_start_ticks(stat: str) -> int:
    """Field 22 of /proc/PID/stat; the name in field 2 may contain spaces and parentheses."""
    return int(stat[stat.rindex(")") + 2 :].split()[19])


def start_ticks(pid: int) -> int | None:
    """The start time of a running process; None if no process has this id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # A zombie has ended; its parent has not collected it yet.
    return None if stat[stat.rindex(")") + 2] == "Z" else parse_start_ticks(stat)


def read_record(layout: Layout, name: str) -> Record | None:
    """The record of a process that was started under this name."""
    try:
        data = json.loads((layout.pids / f"{name}.json").read_text())
        return Record(int(data["pid"]), int(data["start_ticks"]))
    except (OSError, ValueError, KeyError):
        return None


def is_alive(layout: Layout, name: str) -> bool:
    """Whether the process started under this name still runs."""
    record = read_record(layout, name)
    return record is not None and start_ticks(record.pid) == record.start_ticks


def start(
    layout: Layout, name: str, command: Sequence[str], env: Mapping[str, str] | None = None
) -> None:
    """Start a process in its own session, with its output in its log, unless it runs.

    Without an environment, it inherits that of this process.
    """
    if is_alive(layout, name):
        return
    layout.pids.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    with (layout.logs / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=env,
        )
    # If the process has already ended, record a start time that no running process has.
    _write_record(layout, name, Record(process.pid, start_ticks(process.pid) or 0))


def _write_record(layout: Layout, name: str, record: Record) -> None:
    layout.pids.mkdir(parents=True, exist_ok=True)
    write_whole(layout.pids / f"{name}.json", json.dumps(asdict(record)))


def adopt(layout: Layout, name: str, command: Sequence[str]) -> None:
    """Record a process whose start was interrupted before its record."""
    if is_alive(layout, name):
        return
    for record in find(lambda words: words == list(command)):
        _write_record(layout, name, record)


def stop(
    layout: Layout, name: str, command: Sequence[str], patience_seconds: float = TERM_SECONDS
) -> None:
    """End the process started under this name: TERM, then KILL."""
    adopt(layout, name, command)
    record = read_record(layout, name)
    if record is not None:
        end(record, patience_seconds)
    (layout.pids / f"{name}.json").unlink(missing_ok=True)


def end(record: Record, patience_seconds: float = TERM_SECONDS) -> None:
    """End one process if it is still the recorded one."""
    for number, seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, TERM_SECONDS)):
        if start_ticks(record.pid) != record.start_ticks:
            return
        os.kill(record.pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            reap(record.pid)
            if start_ticks(record.pid) != record.start_ticks:
                return
            time.sleep(POLL_SECONDS)


def reap(pid: int) -> None:
    """Collect a child of this process; other processes have their own parents."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def find(is_ours: Callable[[list[str]], bool]) -> list[Record]:
    """Running processes whose command line, as words, is ours, except this process."""
    found: list[Record] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            # The process has ended meanwhile.
            continue
        ticks = start_ticks(int(entry.name))
        if ticks is not None and is_ours(line.decode(errors="replace").split("\0")[:-1]):
            found.append(Record(int(entry.name), ticks))
    return found


def wait_for(
    layout: Layout, name: str, what: str, holds: Callable[[], bool], seconds: float
) -> None:
    """Wait until `holds`, or fail with the end of the process's log.

    Raises:
        ClusterError: The process exited or the wait timed out.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        alive = is_alive(layout, name)
        if alive and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            continue
        log = layout.logs / f"{name}.log"
        how = f"timed out after {seconds:.0f} s" if alive else f"{name} exited"
        raise ClusterError(f"{what}: {how}. The log {log} ends with:\n{tail(log)}")


def tail(log: Path) -> str:
    """The last lines of a log."""
    try:
        return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
    except OSError:
        return "(no log)"


def run(command: Sequence[str | Path], *, stdin: str | None = None) -> str:
    """Output of a command that must succeed.

    Raises:
        ClusterError: It failed; the text contains its output.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ClusterError(f"{words[0]} could not be started: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-LOG_TAIL_BYTES:]
        raise ClusterError(f"`{' '.join(words)}` failed with exit code {done.returncode}: {said}")
    return done.stdout


def succeeds(command: Sequence[str | Path]) -> bool:
    """Whether a command exits with 0; its output is discarded."""
    try:
        return (
            subprocess.run(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            ).returncode
            == 0
        )
    except OSError:
        return False
