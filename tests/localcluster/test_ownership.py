"""A folder is worked in only when it is new, empty or a cluster's, and by one command."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from moorage_localcluster import ownership
from moorage_localcluster.layout import ClusterError, Ports

ROOT = Path(__file__).resolve().parents[2]
PORTS = Ports(api=30001)


def test_a_claimed_folder_remembers_its_first_ports(tmp_path):
    ownership.claim(tmp_path, PORTS)
    ownership.claim(tmp_path, Ports())
    assert ownership.read_mark(tmp_path) == PORTS


def test_an_absent_folder_has_no_mark_and_is_not_made(tmp_path):
    assert ownership.read_mark(tmp_path / "none") is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_things_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ClusterError, match=r"'thesis.tex' but no ports.json"):
        ownership.claim(tmp_path, PORTS)
    with pytest.raises(ClusterError, match="not a cluster's folder"):
        ownership.refuse_foreign(tmp_path)


def test_the_default_folder_is_the_clusters_whatever_a_build_left_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(ownership, "DEFAULT_STATE", tmp_path)
    (tmp_path / "buildah").mkdir()

    ownership.refuse_foreign(tmp_path)
    ownership.claim(tmp_path, PORTS)

    assert ownership.read_mark(tmp_path) == PORTS


def test_a_mark_that_was_cut_off_does_not_make_the_folder_foreign(tmp_path):
    (tmp_path / "ports.json.partial").write_text("{")
    ownership.claim(tmp_path, PORTS)
    assert ownership.read_mark(tmp_path) == PORTS


@pytest.mark.parametrize("text", ["", "{", "[]", '{"api": 1, "colour": 2}'])
def test_an_unreadable_mark_is_named(tmp_path, text):
    (tmp_path / "ports.json").write_text(text)
    with pytest.raises(ClusterError, match=r"ports.json is invalid"):
        ownership.read_mark(tmp_path)


def test_a_lock_makes_the_folder(tmp_path):
    with ownership.locked(tmp_path / "new" / "one"):
        assert (tmp_path / "new" / "one").is_dir()


def test_a_second_command_waits_for_the_first(tmp_path):
    entered = threading.Event()

    def second() -> None:
        with ownership.locked(tmp_path):
            entered.set()

    with ownership.locked(tmp_path):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not entered.wait(0.2)
    assert entered.wait(5)
    waiting.join()


def test_a_command_that_waited_while_the_folder_went_away_holds_the_new_one(tmp_path):
    folder = tmp_path / "cluster"
    marked = threading.Event()

    def second() -> None:
        with ownership.locked(folder):
            ownership.claim(folder, PORTS)
            marked.set()

    with ownership.locked(folder):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not marked.wait(0.2)
        folder.rmdir()
    assert marked.wait(5)
    waiting.join()
    assert ownership.read_mark(folder) == PORTS


HOLD = """
import sys, time
from pathlib import Path
from moorage_localcluster import ownership
with ownership.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_command_that_was_killed_holds_nothing(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        env={"PYTHONPATH": str(ROOT / "localcluster")},
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        holder.kill()

    with ownership.locked(tmp_path):
        assert tmp_path.is_dir()
