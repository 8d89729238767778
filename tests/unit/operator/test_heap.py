"""Memory that was freed goes back to the system, and no C library is taken for glibc."""

import platform
import subprocess
import sys

import pytest

from moorage_operator import heap

FREED = """
import gc
from moorage_operator import heap

def resident() -> int:
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * 4096

heap.set_up()
blocks = [b"x" * 60_000 for _ in range(1000)]
last = b"x" * 60_000  # stands at the heap's end, so that nothing before it is given back by itself
del blocks
gc.collect()
before = resident()
heap.trim()
print((before - resident()) // 60_000)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="mallopt and malloc_trim are glibc's"
)
def test_what_was_freed_below_something_that_stays_goes_back_to_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREED], capture_output=True, text=True, check=True
    )

    assert int(done.stdout) > 900


def test_the_collector_does_not_look_at_what_was_imported() -> None:
    told = (
        "import gc\nfrom moorage_operator import heap\nheap.set_up()\nprint(gc.get_freeze_count())"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)

    assert int(done.stdout) > 1000


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _: object())

    heap.trim()
