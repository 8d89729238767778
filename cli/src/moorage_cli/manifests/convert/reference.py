"""Generates docs/reference/conversions.md from the declared fields; pure."""

from collections.abc import Sequence

from . import kserve_fields, mlserver, seldon, serving_runtimes, triton
from .fields import Field
from .formats import FORMATS

__all__ = ["page"]

_HEAD = """\
# Conversions

[`moorage convert`](cli.md#moorage-convert) rewrites resources and settings of other projects.
These tables are what it does. `*` is any name or position. A field that is not in a table is lost,
unless it is a field of a pod or a container, which goes to `spec.podTemplate`.

Standard error has one line for each field that is not carried over as it is:

| word | meaning |
|---|---|
| `not needed` | the old cluster wrote it, the operator does it, or the server has its own file |
| `changed` | it is carried over in another form; the line says in which |
| `lost` | it is not carried over; the line says why and what to do instead |

"""
_KSERVE = """\
`*` in `spec.predictor.*` is `model` or, in the older shape, a framework such as `sklearn`.
Annotations and labels that only KServe or Knative read are lost. So are probes without an image or
a runtime, because they check KServe's server.
"""
_FILES = """\
The server keeps reading {0} beside the model, so a field without a row stays there. The file does
not say where the model is stored: use `--uri`, or set `spec.model.uri`.
"""
_FORMATS = """\
## Formats

`modelFormat.name`, the framework or the first requirement decides who serves the model. For any
other format the result has a `spec.model.format` of that name, in lower case, for an
[InferenceRuntime](../how-to/shared-runtimes.md) that you write.

| format | `spec.model.format` | remark |
|---|---|---|
"""


def page() -> str:
    """The page."""
    return "\n".join(
        [
            _HEAD + _chapter("KServe: InferenceService", kserve_fields.FIELDS, _KSERVE),
            _chapter("KServe: ServingRuntime, ClusterServingRuntime", serving_runtimes.FIELDS, ""),
            _chapter("Seldon Core 2: Model", seldon.FIELDS, ""),
            _chapter("Triton: config.pbtxt", triton.FIELDS, _FILES.format("`config.pbtxt`")),
            _chapter(
                "MLServer: model-settings.json",
                mlserver.FIELDS,
                _FILES.format("`model-settings.json`"),
            ),
            _FORMATS + "".join(_format_row(name) for name in FORMATS),
        ]
    )


def _chapter(title: str, fields: Sequence[Field], text: str) -> str:
    rows = "".join(_row(field) for field in fields)
    about = f"{text}\n" if text else ""
    return f"## {title}\n\n{about}| field | becomes | remark |\n|---|---|---|\n{rows}"


def _row(field: Field) -> str:
    target = ", ".join(f"`{each}`" for each in field.target.split(", ") if each) or "lost"
    return f"| `{field.path}` | {target} | {field.remark} |\n"


def _format_row(name: str) -> str:
    form = FORMATS[name]
    target = "the bundled runtime detects it" if form.is_bundled else f"`{form.name}`"
    return f"| `{name}` | {target} | {form.remark} |\n"
