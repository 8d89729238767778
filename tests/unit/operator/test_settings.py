import pytest

from moorage_operator.api.config import OperatorConfig
from moorage_operator.settings import OPTIONS, Settings, SettingsError, parse, parser

REQUIRED = {"MOORAGE_RUNTIME_IMAGE": "runtime:1"}


def settings(*flags: str, **environ: str) -> Settings:
    return parse(flags, {**REQUIRED, **environ}, version="1")


def test_defaults_match_the_help() -> None:
    assert settings() == Settings(
        namespaces=(),
        config=OperatorConfig(runtime_image="runtime:1"),
        workers=32,
        polls_a_second=50,
        health_host="::",
        health_port=8080,
        log_format="json",
        log_level="info",
    )


def test_a_flag_overrides_its_variable() -> None:
    found = settings("--log-level", "debug", MOORAGE_LOG_LEVEL="error", MOORAGE_WORKERS="3")

    assert (found.log_level, found.workers) == ("debug", 3)


def test_namespaces_are_a_list_without_duplicates() -> None:
    assert settings("--namespaces", "a, b,a,").namespaces == ("a", "b")


@pytest.mark.parametrize(
    "selector",
    [
        "moorage.dev/shard=a",
        "a==b,c!=d",
        "!moorage.dev/shard",
        "team in (x, y), stage notin (test)",
        "canary",
        "a=",
    ],
)
def test_valid_label_selectors_are_accepted(selector: str) -> None:
    assert settings("--watch-label-selector", f" {selector} ").watch_label_selector == selector


def test_pull_secrets_are_a_list_without_duplicates() -> None:
    found = settings(MOORAGE_IMAGE_PULL_SECRETS="registry, mirror,registry")

    assert found.config.image_pull_secrets == ("registry", "mirror")


def test_the_name_label_may_differ_from_that_of_the_chart() -> None:
    assert settings().config.name_label == "moorage"
    assert settings(MOORAGE_NAME_LABEL="serving").config.name_label == "serving"


def test_secrets_are_looked_up_only_on_request() -> None:
    assert not settings().secret_hints
    assert settings("--secret-hints", "true").secret_hints


def test_default_resources_are_json() -> None:
    found = settings(MOORAGE_DEFAULT_RESOURCES='{"requests":{"cpu":"1"}}')

    assert found.config.default_resources == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("MOORAGE_NAMESPACES", "a,B", "'B'"),
        ("MOORAGE_NAMESPACES", " , ", "or empty for all namespaces"),
        ("MOORAGE_IMAGE_PULL_SECRETS", "a,My Secret", "'My Secret'"),
        ("MOORAGE_SECRET_HINTS", "yes", "must be true or false"),
        ("MOORAGE_RUNTIME_IMAGE", "", "an image reference"),
        ("MOORAGE_RUNTIME_IMAGE", "a b", "an image reference"),
        ("MOORAGE_IMAGE_PULL_POLICY", "Sometimes", "'IfNotPresent'"),
        ("MOORAGE_CLUSTER_DOMAIN", "http://x", "a DNS domain"),
        ("MOORAGE_CLUSTER_DOMAIN", "cluster..local", "a DNS domain"),
        ("MOORAGE_LEASE_NAME", "a.-b", "an object name"),
        ("MOORAGE_DEFAULT_RESOURCES", "{", "as JSON"),
        ("MOORAGE_DEFAULT_RESOURCES", "[]", "a JSON object"),
        ("MOORAGE_DEFAULT_RESOURCES", '{"cpu":1}', "'cpu'"),
        ("MOORAGE_WATCH_LABEL_SELECTOR", "shard: a", "'shard: a' is not"),
        ("MOORAGE_WATCH_LABEL_SELECTOR", "a=b,", "a label selector such as moorage.dev/shard=a"),
        ("MOORAGE_WATCH_LABEL_SELECTOR", "a in b", "'a in b' is not"),
        ("MOORAGE_NAME_LABEL", "", "the value of a label"),
        ("MOORAGE_NAME_LABEL", "a=b", "the value of a label"),
        ("MOORAGE_WORKERS", "0", "from 1 to 256"),
        ("MOORAGE_WORKERS", "1.5", "from 1 to 256"),
        ("MOORAGE_HEALTH_PORT", "-1", "from 0 to 65535"),
        ("MOORAGE_LOG_FORMAT", "xml", "'json', 'text'"),
        ("MOORAGE_LOG_LEVEL", "loud", "'info'"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_value_and_rule(
    variable: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(**{variable: value})

    assert str(caught.value).startswith(f"{variable}: {value!r} is invalid: must be ")
    assert said in str(caught.value)


def test_an_invalid_flag_is_reported_as_the_flag() -> None:
    with pytest.raises(SettingsError, match=r"^--workers: 'x'"):
        settings("--workers", "x")


def test_a_missing_image_is_reported_with_flag_and_variable() -> None:
    with pytest.raises(
        SettingsError, match=r"^--runtime-image or MOORAGE_RUNTIME_IMAGE must be set"
    ):
        parse((), {}, version="1")


@pytest.mark.parametrize("flags", [("--log-levle", "info"), ("--work", "3"), ("extra",)])
def test_an_unknown_flag_is_rejected(flags: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=flags[0]):
        settings(*flags)


def test_an_unknown_variable_with_our_prefix_is_rejected() -> None:
    with pytest.raises(SettingsError, match=r"^MOORAGE_LOG_LEVLE .*MOORAGE_LOG_LEVEL"):
        settings(MOORAGE_LOG_LEVLE="info")


@pytest.mark.parametrize(
    "name",
    [
        "MOORAGE_SERVICE_HOST",
        "MOORAGE_METRICS_SERVICE_PORT_HTTP",
        "MOORAGE_PORT",
        "MOORAGE_METRICS_PORT_8080_TCP_ADDR",
    ],
)
def test_service_variables_of_kubernetes_are_ignored(name: str) -> None:
    settings(**{name: "tcp://10.0.0.1:8080"})


def test_the_help_lists_every_flag_variable_and_default() -> None:
    text = " ".join(parser("1").format_help().split())

    for option in OPTIONS:
        assert option.flag in text
        assert f"[{option.variable}]" in text


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_end_with_success(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse((flag,), {}, version="1.2.3")

    assert ended.value.code == 0
    assert "moorage-operator" in capsys.readouterr().out
