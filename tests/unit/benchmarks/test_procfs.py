"""What the kernel prints, to numbers."""

import os
import time

import pytest
from moorage_benchmarks import procfs
from moorage_benchmarks.procfs import Memory

ROLLUP = """\
55d0c0000000-7ffd0a7f0000 ---p 00000000 00:00 0                          [rollup]
Rss:               85600 kB
Pss:               64000 kB
Pss_Dirty:         50000 kB
Shared_Clean:      30000 kB
Private_Clean:      2000 kB
Private_Dirty:     50100 kB
"""


def test_memory_is_in_bytes_and_private_is_clean_and_dirty():
    expected = Memory(85600 * 1024, 64000 * 1024, 52100 * 1024)

    assert procfs.parse_memory(ROLLUP) == expected


@pytest.mark.parametrize("line", ["Rss", "Pss", "Private_Clean", "Private_Dirty"])
def test_a_missing_line_is_named(line):
    rest = "".join(
        each for each in ROLLUP.splitlines(keepends=True) if not each.startswith(f"{line}:")
    )

    with pytest.raises(ValueError, match=line):
        procfs.parse_memory(rest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz: fast\n", "Some CPU @ 2 GHz: fast"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", "unknown"),
    ],
)
def test_processor_is_the_model_name(text, expected):
    assert procfs.parse_processor(text) == expected


def test_total_memory_is_in_bytes():
    assert procfs.parse_total_memory("MemTotal:  1024 kB\nMemFree:  1 kB\n") == 1024 * 1024
    with pytest.raises(ValueError, match="MemTotal"):
        procfs.parse_total_memory("MemFree: 1 kB\n")


def test_this_process_is_read_as_the_kernel_tells_it():
    before = time.process_time()
    used = procfs.cpu_seconds(os.getpid())
    after = time.process_time()

    found = procfs.memory(os.getpid())

    assert before <= used <= after
    assert found.rss >= found.pss >= found.private > 0
