"""The reference pages of the runtime.

The pages of the operator are written by hand, and a contract test checks their tables.
"""

import json
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from moorage_runtime.dataplane.metrics import InferenceMetrics, States
from moorage_runtime.dataplane.tally import Tally
from moorage_runtime.repository.contents import config
from moorage_runtime.settings import SETTINGS, Setting

SETTINGS_HEAD = """\
# Settings of the runtime

Each setting is a command-line option and an environment variable; the option overrides the
variable. An invalid value ends the command with status 2 and a message that names the setting.

| option | variable | default | expects |
|---|---|---|---|
"""
METRICS_HEAD = """\
# Metrics of the runtime

`GET /metrics` on the HTTP port returns metrics in the Prometheus text format, or in OpenMetrics
if the client requests it. It includes memory, CPU and garbage collection of the process. Only
models that the server knows become labels, and the series of a removed model or version are
dropped at the next scrape.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def files(_root: Path) -> dict[str, str]:
    """The pages."""
    return {
        "docs/reference/runtime-settings.md": settings_page(),
        "docs/reference/metrics-runtime.md": metrics_page(),
        "docs/reference/model.schema.json": json.dumps(config.schema(), indent=2) + "\n",
    }


def settings_page() -> str:
    """A table of the settings, and the meaning of each."""
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
        elif isinstance(value, Tally | States):
            rows += [metric_row(family, family) for family in value.describe()]
    return METRICS_HEAD + "".join(rows)


def metric_row(family: Metric, labelled: MetricWrapperBase | Metric) -> str:
    """One line of the table."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    names: tuple[str, ...] = labelled._labelnames  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] # no public way
    labels = ", ".join(f"`{label}`" for label in names)
    return f"| `{name}` | {family.type} | {labels} | {family.documentation} |\n"
