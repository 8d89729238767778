"""Arguments that are refused before anything is read or changed, with the name of each."""

import pytest

from moorage_cli import __main__ as program
from moorage_cli.command_line.arguments import COMMANDS, parser

TFS = "TensorFlowServing"

NAMES = ("", ".", "..", "a/b", "/", "a\nb", "Iris", "🚀", "-a", "a-", "a..b", "a" * 254, "a\udcff")
WHOLE = ("", " ", "-1", "1.5", "1_0", "٣", "²", "0x10", "nan", "9" * 5000, "2147483648")
NUMBERS = ("", "0", "0.0", "-1", "nan", "inf", "1_0", "٣", " 5", "0x10", "1e999", "9" * 5000)
# A command line whose last word is the value, and how a message names the argument.
LINES = {
    "NAME": (NAMES, ["delete", "--yes"]),
    "NAME|URL": (NAMES, ["bench"]),
    "-n/--namespace": (("", ".", "..", "a.b", "a/b", "A", "a" * 64), ["status", "--namespace"]),
    "--runtime": (NAMES, ["deploy", "s3://a/b", "--name", "a", "--runtime"]),
    "--claim": (NAMES, ["deploy", "s3://a/b", "--name", "a", "--claim"]),
    "N": (WHOLE, ["scale", "iris"]),
    "--tail": (WHOLE, ["logs", "iris", "--tail"]),
    "--replicas": (WHOLE, ["deploy", "s3://a/b", "--name", "a", "--replicas"]),
    "--size": (
        ("", "0", "0Gi", "abc", "-1Gi", "1 Gi", "Gi", "1e3", "1gi"),
        ["deploy", "m.onnx", "--name", "a", "--size"],
    ),
    "--name": (("", ".", "..", "a\nb", "a b"), ["run", "m.onnx", "--name"]),
    "--http-port": (("", "-1", "65536", "70000", "8_0", "٣"), ["run", "a", "--http-port"]),
    "--port": (("", "-1", "65536", "70000", "8_0", "٣"), ["ui", "--port"]),
    "--rate": ((*NUMBERS, "100001"), ["bench", "iris", "--rate"]),
    "--duration": ((*NUMBERS, "86401"), ["bench", "iris", "--duration"]),
    "--timeout": ((*NUMBERS, "86401"), ["wait", "iris", "--timeout"]),
}


def refused(line: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command line, which is refused as invalid usage."""
    with pytest.raises(SystemExit) as ended:
        program.main(line)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    return err.rpartition("error: ")[2]


@pytest.mark.parametrize("argument", LINES)
def test_an_invalid_value_is_refused_with_its_argument_and_what_is_allowed(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values, line = LINES[argument]
    for value in values:
        is_option = argument.startswith("-")
        # after "--", a value that starts with a dash is no option
        words = [*line[:-1], f"{line[-1]}={value}"] if is_option else [*line, "--", value]

        message = refused(words, capsys)

        shown = value if len(value) <= 80 else value[:79]
        assert message.startswith(f"argument {argument}: {shown!r}"[:90]), value
        assert "is invalid: must " in message
        assert len(message) < 300


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["infer", "iris", "-f", "x", "--protocol", "tensorflowserving"], "protocol", TFS),
        (["infer", "iris", "-f", "x", "--protocol", "OPENINFERENCE"], "protocol", "OpenInference"),
        (["infer", "iris", "-f", "x", "--transport", "grpc"], "transport", "GRPC"),
        (["infer", "iris", "-f", "x", "--transport=Http"], "transport", "HTTP"),
        (["bench", "iris", "--protocol", "Grps"], "protocol", "GRPS"),
        (["bench", "iris", "--transport", "grpc"], "transport", "GRPC"),
        (["bench", "iris"], "transport", ""),
        (["conformance", "a:1", "--require", "openinference"], "require", "OpenInference"),
        (["status", "-o", "JSON"], "output", "json"),
    ],
)
def test_a_choice_is_accepted_in_any_case(words: list[str], name: str, value: str) -> None:
    assert getattr(parser().parse_args(words), name) == value


def test_an_unknown_choice_is_refused_with_all_choices(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["infer", "iris", "-f", "x", "--transport", "udp"], capsys)

    assert message.startswith("argument --transport: invalid choice: 'udp' (choose from ")
    assert "GRPC" in message


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_no_text_of_a_command_is_taken_for_absent_because_it_is_empty(
    command, capsys: pytest.CaptureFixture[str]
) -> None:
    required = [
        "a" if "choices" not in each.options else each.options["choices"][0]
        for each in command.arguments
        if not each.is_option and each.options.get("type") is not None
    ]
    for argument in command.arguments:
        name = argument.names[-1]
        if argument.is_option and "action" not in argument.options and name != "--storage-class":
            message = refused([command.name, f"{name}=", *required], capsys)
            assert message.startswith(f"argument {'/'.join(argument.names)}: ")
            assert "''" in message


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        (["deploi", "m.onnx"], "'deploi' is not a command: did you mean deploy?"),
        (["log", "iris"], "'log' is not a command: did you mean logs?"),
        (["-n", "shop", "status"], "-n must follow the command: moorage COMMAND -n ..."),
        (["--namespace=shop", "status"], "--namespace must follow the command"),
    ],
)
def test_a_misspelled_command_and_a_misplaced_option_are_named_with_the_fix(
    line: list[str], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fix in refused(line, capsys)


def test_an_unknown_argument_is_refused_with_the_usage_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["rollback", "iris", "93ab01c6f2"])

    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert error.startswith("usage: moorage rollback [-h] [--to REVISION]")
    assert "moorage rollback: error: unrecognized arguments: 93ab01c6f2" in error
