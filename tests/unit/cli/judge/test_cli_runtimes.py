"""The table of InferenceRuntimes, and the models of one."""

import pytest

from moorage_cli.judge.model_view import runtime_view, view
from moorage_cli.judge.runtimes import models_of_runtime, runtimes
from moorage_cli.printing.tables import Palette

PLAIN = Palette(coloured=False)


def runtime(name="triton", accepted="True", **spec):
    condition = {"type": "Accepted", "status": accepted, "reason": "InvalidSpec", "message": "no"}
    return {
        "metadata": {"name": name},
        "spec": {
            "image": "triton:1",
            "protocol": "OpenInference",
            "formats": [{"name": "onnx", "priority": 1}, {"name": "plan"}],
            **spec,
        },
        "status": {"models": 3, "outdatedModels": 1, "conditions": [condition]},
    }


def model(name, used="triton", pending="", namespace="a", ready="True"):
    conditions = [{"type": "Ready", "status": ready, "reason": "Serving"}]
    if pending:
        conditions.append(
            {
                "type": "RuntimeUpdatePending",
                "status": "True",
                "reason": "RuntimeChanged",
                "message": pending,
            }
        )
    return {
        "metadata": {"name": name, "namespace": namespace},
        "status": {"runtime": {"name": used}, "conditions": conditions},
    }


def lines(report):
    return [" ".join(line.split()) for line in report.text.splitlines()]


def test_the_table_has_a_row_for_each_runtime():
    bundled = {"metadata": {"name": "moorage"}, "spec": {"default": True}}
    report = runtimes([runtime_view(runtime()), runtime_view(bundled)], PLAIN)

    assert lines(report) == [
        "NAME DEFAULT IMAGE PROTOCOL FORMATS MODELS OUTDATED PROBLEM",
        "triton - triton:1 OpenInference onnx,plan 3 1 -",
        "moorage yes (bundled) - - 0 0 -",
    ]
    assert report.ok
    assert report.names == ("triton", "moorage")
    assert report.document[0]["outdated_models"] == 1


def test_a_runtime_that_is_not_accepted_is_a_problem():
    report = runtimes([runtime_view(runtime(accepted="False"))], PLAIN)

    assert not report.ok
    assert lines(report)[1].endswith("InvalidSpec: no")


HELD = {
    "type": "UpdateHeld",
    "status": "True",
    "reason": "AwaitingModel",
    "message": "update held: model shop/iris failed with RolledBack: "
    + "revision r2 " * 12
    + "end",
}


def test_a_model_that_holds_the_update_is_a_problem_whose_message_the_runtime_shows_in_full():
    held = runtime()
    held["status"]["conditions"].append(HELD)

    table = runtimes([runtime_view(held)], PLAIN)
    alone = models_of_runtime(runtime_view(held), [view(model("iris", namespace="shop"))], PLAIN)

    assert not table.ok
    assert "AwaitingModel: update held: model shop/iris failed with RolledBack" in table.text
    assert "r2 end\n" not in table.text
    assert f"\nAwaitingModel: {HELD['message']}\n" in alone.text


def test_no_runtimes_are_a_sentence():
    assert runtimes([], PLAIN).text == "No InferenceRuntimes found.\n"


def test_the_models_of_a_runtime_follow_it_and_those_that_lag_come_first():
    models = [
        model("zoo", namespace="b"),
        model("iris"),
        model("other", used="mlserver"),
        model("rose", pending="the runtime was edited", ready="False"),
    ]
    report = models_of_runtime(runtime_view(runtime()), [view(each) for each in models], PLAIN)

    assert lines(report)[3:] == [
        "NAMESPACE MODEL READY OUTDATED MESSAGE",
        "a rose False yes the runtime was edited",
        "a iris True no -",
        "b zoo True no -",
    ]
    assert [each["name"] for each in report.document["usedBy"]] == ["rose", "iris", "zoo"]
    assert report.ok


@pytest.mark.parametrize("damaged", [{}, {"spec": []}, {"spec": {"formats": [1]}, "status": 5}])
def test_a_damaged_runtime_is_shown_as_far_as_it_can_be_read(damaged):
    assert len(lines(runtimes([runtime_view(damaged)], PLAIN))) == 2
