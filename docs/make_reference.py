#!/usr/bin/env python3
"""Writes the reference pages that are made from code; a contract test compares them.

.venv/bin/python docs/make_reference.py
"""

import json
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from moorage_runtime.metrics import InferenceMetrics
from moorage_runtime.repository import config
from moorage_runtime.settings import SETTINGS, Setting
from moorage_runtime.tally import Tally

REFERENCE = Path(__file__).resolve().parent / "reference"

SETTINGS_HEAD = """\
# Settings of the runtime

Every setting is a command-line option and an environment variable; the option wins. A value that
cannot be used ends the command with status 2 and a sentence that names it.

| option | variable | default | expects |
|---|---|---|---|
"""
METRICS_HEAD = """\
# Metrics of the runtime

`GET /metrics` on the HTTP port, in Prometheus' text format (OpenMetrics for clients that ask for
it), together with the process's own memory, CPU and garbage collection. Only models that the
server knows become labels.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def pages() -> dict[str, str]:
    """File name to text of every page."""
    return {
        "runtime-settings.md": settings_page(),
        "metrics-runtime.md": metrics_page(),
        "model.schema.json": json.dumps(config.schema(), indent=2) + "\n",
    }


def settings_page() -> str:
    """A table of the settings, and what each is for."""
    rows = "".join(map(setting_row, SETTINGS))
    meanings = "".join(f"\n`{s.flag}`: {s.help}\n" for s in SETTINGS)
    return f"{SETTINGS_HEAD}{rows}{meanings}"


def setting_row(setting: Setting) -> str:
    """One line of the table."""
    default = f"`{setting.default}`" if setting.default else ""
    return f"| `{setting.flag}` | `{setting.variable}` | {default} | {setting.expected} |\n"


def metrics_page() -> str:
    """A table of the metrics."""
    registry = CollectorRegistry()
    made = InferenceMetrics(registry)
    rows: list[str] = []
    for value in vars(made).values():
        if isinstance(value, MetricWrapperBase):
            rows += [metric_row(family, value) for family in value.describe()]
        elif isinstance(value, Tally):
            rows += [metric_row(family, family) for family in value.describe()]
    return METRICS_HEAD + "".join(rows)


def metric_row(family: Metric, labelled: MetricWrapperBase | Metric) -> str:
    """One line of the table."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    names: tuple[str, ...] = labelled._labelnames  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] # no public way
    labels = ", ".join(f"`{label}`" for label in names)
    return f"| `{name}` | {family.type} | {labels} | {family.documentation} |\n"


def main() -> None:
    """Write every page."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)


if __name__ == "__main__":
    main()
