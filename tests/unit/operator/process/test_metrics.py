"""The exposed metrics of the models in the store."""

from moorage_operator.process.metrics import Metrics
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


def test_only_paused_models_have_a_paused_series():
    store, metrics = deaf_store(), Metrics()
    for name, paused in {"held": True, "free": False}.items():
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        store.put_model({"metadata": metadata, "spec": {"paused": paused}})

    metrics.read(store.models)

    series = 'moorage_model_paused{model_name="held",model_namespace="ns"} 1.0'
    assert series in metrics.text().decode().splitlines()
    assert 'moorage_model_paused{model_name="free"' not in metrics.text().decode()
