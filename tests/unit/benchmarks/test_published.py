"""The figures in the README and the pages are the recorded ones."""

import json

from moorage_benchmarks import operator_summary, peers, programs

RESULTS = programs.ROOT / "benchmarks" / "results"
README = (programs.ROOT / "README.md").read_text()
SCALE = (programs.ROOT / "docs" / "scale.md").read_text()


def recorded(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def test_the_readme_shows_what_was_recorded_of_the_servers_and_when():
    report = recorded("peers")

    assert peers.summary(report["results"]).as_markdown() in README
    assert report["date"] in README


def test_the_page_on_scale_shows_what_was_recorded_of_the_operator_and_when():
    stress, scale = recorded("operator-stress"), recorded("operator-scale")

    table = operator_summary.summary(stress["results"], scale["results"])

    assert table.as_markdown() in SCALE
    assert stress["date"] in SCALE
    assert scale["date"] in SCALE
