"""The operator's figures in the README are the recorded ones."""

import json

from moorage_benchmarks import operator_summary, programs

RESULTS = programs.ROOT / "benchmarks" / "results"


def test_the_readme_shows_what_was_recorded_of_the_operator_and_when():
    stress, scale = (
        json.loads((RESULTS / f"operator-{name}.json").read_text()) for name in ("stress", "scale")
    )
    readme = (programs.ROOT / "README.md").read_text()

    table = operator_summary.summary(stress["results"], scale["results"])

    assert table.as_markdown() in readme
    dates = sorted({stress["date"], scale["date"]})
    assert f"The operator's were recorded on {' and '.join(dates)}" in readme
    assert stress["machine"]["processor"] in readme
