"""`moorage runtimes`: a table of InferenceRuntimes, and the models of one; pure."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from moorage_cli.judge.model_view import RUNTIME_UPDATE_PENDING, ModelView, RuntimeView
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import Cell, Palette, Tone, render, shorten

__all__ = ["models_of_runtime", "runtimes"]

HEAD = ("NAME", "DEFAULT", "IMAGE", "PROTOCOL", "FORMATS", "MODELS", "OUTDATED", "PROBLEM")
MODELS = ("NAMESPACE", "MODEL", "READY", "OUTDATED", "MESSAGE")
BUNDLED = "(bundled)"
MESSAGE_WIDTH = 100


def runtimes(found: Sequence[RuntimeView], palette: Palette) -> Report:
    """One row per runtime; ok if none has a problem."""
    rows = [_row(each) for each in found]
    return Report(
        text=render(HEAD, rows, palette) if rows else "No InferenceRuntimes found.\n",
        document=[asdict(each) for each in found],
        ok=not any(each.problem for each in found),
        names=tuple(each.name for each in found),
    )


def models_of_runtime(
    runtime: RuntimeView, models: Sequence[ModelView], palette: Palette
) -> Report:
    """The row of a runtime and its models, those that lag behind first; ok without a problem."""
    mine = sorted(
        (each for each in models if each.runtime == runtime.name),
        key=lambda each: (not each.lags, each.namespace, each.name),
    )
    text = render(HEAD, [_row(runtime)], palette)
    if len(runtime.problem) > MESSAGE_WIDTH:
        text += f"\n{clean(runtime.problem)}\n"
    if mine:
        text += "\n" + render(MODELS, [_model_row(each) for each in mine], palette)
    return Report(
        text=text,
        document={**asdict(runtime), "usedBy": [_model_document(each) for each in mine]},
        ok=not runtime.problem,
        names=(runtime.name,),
    )


def _row(runtime: RuntimeView) -> list[Cell]:
    return [
        Cell(runtime.name),
        Cell("yes" if runtime.is_default else ""),
        Cell(runtime.image or BUNDLED),
        Cell(runtime.protocol),
        Cell(",".join(runtime.formats)),
        Cell(runtime.models),
        Cell(runtime.outdated_models, Tone.UNSURE if runtime.outdated_models else Tone.PLAIN),
        Cell(shorten(runtime.problem, MESSAGE_WIDTH), Tone.BAD),
    ]


def _model_row(model: ModelView) -> list[Cell]:
    ready = model.ready.status if model.is_current else "Unknown"
    return [
        Cell(model.namespace),
        Cell(model.name),
        Cell(ready, Tone.GOOD if model.is_ready else Tone.BAD),
        Cell("yes" if model.lags else "no", Tone.UNSURE if model.lags else Tone.PLAIN),
        Cell(shorten(_reason_to_lag(model), MESSAGE_WIDTH)),
    ]


def _reason_to_lag(model: ModelView) -> str:
    return model.conditions[RUNTIME_UPDATE_PENDING].message if model.lags else ""


def _model_document(model: ModelView) -> dict[str, Any]:
    return {
        "namespace": model.namespace,
        "name": model.name,
        "ready": model.is_ready,
        "outdated": model.lags,
        "message": _reason_to_lag(model),
    }
