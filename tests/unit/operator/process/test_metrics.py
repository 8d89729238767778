"""The exposed metrics of the models in the store."""

from moorage_operator.process.metrics import Metrics
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey
from support.operator_values import deaf_store


def status(ready: str, reason: str) -> dict[str, object]:
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": ""}
    return {"conditions": [condition]}


def test_a_suspended_model_is_not_counted_as_failing():
    store, metrics = deaf_store(), Metrics()
    statuses = {
        "good": status("True", "Serving"),
        "bad": status("False", "PodNotReady"),
        "asleep": status("False", "Suspended"),
        "new": {},
    }
    for name, said in statuses.items():
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        store.put_model({"metadata": metadata, "spec": {}, "status": said})

    metrics.read(store.models)

    lines = metrics.text().decode().splitlines()
    values = {"good": "True", "bad": "False", "asleep": "Suspended", "new": "Unknown"}
    for name, value in values.items():
        labels = f'model_name="{name}",model_namespace="ns",ready="{value}"'
        assert f"moorage_model_ready{{{labels}}} 1.0" in lines
        assert f'moorage_models{{ready="{value}"}} 1.0' in lines


def test_a_deleted_model_has_no_series():
    store, metrics = deaf_store(), Metrics()
    metrics.read(store.models)
    metadata = {"name": "iris", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    store.put_model({"metadata": metadata, "spec": {}})
    assert "iris" in metrics.text().decode()

    store.drop_model(ObjectKey("ns", "iris"), "u")

    assert "iris" not in metrics.text().decode()


def test_only_stalled_models_have_a_stalled_series():
    store, metrics = deaf_store(), Metrics()
    for name, said in {"stuck": "True", "fine": "False"}.items():
        conditions = [{"type": "Stalled", "status": said, "reason": "ModelLoadFailed"}]
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        store.put_model({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}})

    metrics.read(store.models)

    series = 'moorage_model_stalled{model_name="stuck",model_namespace="ns"} 1.0'
    assert series in metrics.text().decode().splitlines()
    assert 'moorage_model_stalled{model_name="fine"' not in metrics.text().decode()


def test_a_suspended_model_has_no_stalled_series_after_a_failed_rollout():
    store, metrics = deaf_store(), Metrics()
    conditions = [
        {"type": "Ready", "status": "False", "reason": "Suspended"},
        {"type": "Stalled", "status": "True", "reason": "RolledBack"},
    ]
    metadata = {"name": "iris", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    store.put_model({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}})

    metrics.read(store.models)

    assert "moorage_model_stalled{" not in metrics.text().decode()


def test_only_paused_models_have_a_paused_series():
    store, metrics = deaf_store(), Metrics()
    for name, paused in {"held": True, "free": False}.items():
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        store.put_model({"metadata": metadata, "spec": {"paused": paused}})

    metrics.read(store.models)

    series = 'moorage_model_paused{model_name="held",model_namespace="ns"} 1.0'
    assert series in metrics.text().decode().splitlines()
    assert 'moorage_model_paused{model_name="free"' not in metrics.text().decode()


def with_statuses(**said: dict[str, object]) -> tuple[Store, Metrics]:
    """The metrics of models with these statuses."""
    store, metrics = deaf_store(), Metrics()
    for name, found in said.items():
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        store.put_model({"metadata": metadata, "spec": {}, "status": found})
    metrics.read(store.models)
    return store, metrics


def series_of(metrics: Metrics, name: str) -> list[str]:
    """The samples of a metric."""
    lines = metrics.text().decode().splitlines()
    return [
        each.removeprefix(name) for each in lines if each.startswith((f"{name}{{", f"{name} "))
    ]


def test_a_runtime_counts_its_models_and_those_that_lag_behind():
    def of(runtime: str, *types: str) -> dict[str, object]:
        conditions = [
            {"type": each, "status": "True", "reason": "RuntimeChanged"} for each in types
        ]
        return {"runtime": {"name": runtime, "content": "{}"}, "conditions": conditions}

    _, metrics = with_statuses(
        a=of("triton", "RuntimeUpdatePending"), b=of("triton"), c=of("vllm"), d={}
    )

    assert series_of(metrics, "moorage_runtime_models") == [
        '{runtime="triton"} 2.0',
        '{runtime="vllm"} 1.0',
    ]
    assert series_of(metrics, "moorage_runtime_outdated_models") == [
        '{runtime="triton"} 1.0',
        '{runtime="vllm"} 0.0',
    ]


def test_only_models_whose_route_is_not_accepted_have_a_series():
    def routed(status: str, ready: str = "Serving") -> dict[str, object]:
        listed = {"RouteAccepted": (status, "-"), "Ready": ("False", ready)}
        conditions = [
            {"type": each, "status": said, "reason": reason}
            for each, (said, reason) in listed.items()
        ]
        return {"conditions": conditions}

    _, metrics = with_statuses(
        refused=routed("False"),
        waits=routed("Unknown"),
        accepted=routed("True"),
        asleep=routed("False", "Suspended"),
        inside=status("True", "Serving"),
    )

    assert series_of(metrics, "moorage_model_route_pending") == [
        f'{{model_name="{name}",model_namespace="ns"}} 1.0' for name in ("refused", "waits")
    ]


def test_only_models_whose_certificate_was_seen_have_its_expiry():
    store, metrics = with_statuses(secured={}, plain={})

    metrics.read(store.models, lambda record: 4e9 if record.key.name == "secured" else None)

    assert series_of(metrics, "moorage_model_certificate_expiry_timestamp_seconds") == [
        '{model_name="secured",model_namespace="ns"} 4e+09'
    ]
