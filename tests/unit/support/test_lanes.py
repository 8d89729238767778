"""The sum of two pytest sessions that ran beside each other."""

import os
import subprocess
import sys

import pytest

from lanes import (
    BESIDE,
    FIRST,
    MEASURING,
    ROOT,
    beside,
    causes,
    closing_causes,
    closing_line,
    counts,
    measured,
)


@pytest.mark.parametrize(
    ("closing", "found"),
    [
        ("=== 3 passed in 1.20s ===", {"passed": 3}),
        (
            "== 2 failed, 3 passed, 4 skipped, 14 errors in 4569.44s (1:16:09) ==",
            {"failed": 2, "passed": 3, "skipped": 4, "error": 14},
        ),
        ("== 1 error, 1 xfailed in 2.00s ==", {"error": 1, "xfailed": 1}),
        # a session that was interrupted before its end has no results
        ("!!!!! session-timeout: 4500.0 sec exceeded !!!!!", {}),
    ],
)
def test_results_are_read_from_the_closing_line(closing, found):
    assert counts(f"=== 9 passed in the past ===\ntests/a.py .F [100%]\n{closing}\n") == found


def test_errors_and_unexpected_passes_are_failures():
    lanes = [
        counts("== 1 passed, 1 error in 1.0s =="),
        counts("== 2 passed, 1 xpassed in 1.0s =="),
    ]

    assert closing_line(lanes) == "3 passed, 2 failed, 0 skipped"


def test_the_causes_of_failures_are_read_from_the_summary(tmp_path):
    (tmp_path / "test_three.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def demo(): raise ValueError('the first line\\nthe second line')\n"
        "def test_one(demo): pass\n"
        "@pytest.mark.parametrize('word', ['a - b', 'c'])\n"
        "def test_two(demo, word): pass\n"
        "def test_three(): raise ValueError('FAILED to add 1 - 2')\n"
        "def test_four(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "CI": "true"}
    output = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    ).stdout

    found = causes(output)

    assert [len(each) for each in found.values()] == [3, 1]
    fixture, raised = found
    assert raised == "ValueError: FAILED to add 1 - 2"
    assert "the first line\nthe second line" in fixture
    assert found[fixture][1].endswith("::test_two[a - b]")
    assert "test_one and 2 other tests\n" in closing_causes([output, "", output])


def test_a_session_without_failures_has_no_causes():
    assert closing_causes(["== 3 passed in 1.0s ==", ""]) == ""


def test_every_file_with_tests_is_in_one_session():
    def files(arguments: list[str]) -> list[str]:
        ignored = {each.removeprefix("--ignore=") for each in arguments if "--ignore" in each}
        found = [
            file
            for path in (ROOT / each for each in arguments if "--ignore" not in each)
            for file in (path.rglob("test_*.py") if path.is_dir() else [path])
        ]
        return [each for file in found if (each := str(file.relative_to(ROOT))) not in ignored]

    played = [*files([f"tests/{each}" for each in FIRST]), *files(measured()), *files(beside())]

    written = (str(each.relative_to(ROOT)) for each in (ROOT / "tests").rglob("test_*.py"))
    assert sorted(played) == sorted(written)
    assert all((ROOT / "tests" / each).exists() for each in (*FIRST, *BESIDE, *MEASURING))
