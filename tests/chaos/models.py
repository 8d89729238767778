"""The six models under traffic: every protocol, every strategy that needs no gateway. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.digits_client import GRPS, LABEL, OIP_GRPC, OIP_HTTP, TFS
from support.manifests import digits, sample

CONTRACT = {
    "policy": "Enforce",
    "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}],
}
SMOKE_TEST = {
    "name": "three",
    "inputs": sample(LABEL)["inputs"],
    "outputs": [{"name": "label", "data": [LABEL]}],
}


@dataclass(frozen=True, slots=True)
class Model:
    """One model, and what its traffic may expect of it.

    Attributes:
        name: Of the InferenceModel.
        asked: The protocol of its traffic.
        replicas: How many serve.
        strategy: Of its rollouts.
        spec: The rest of its spec.
    """

    name: str
    asked: str
    replicas: int
    strategy: str
    spec: Mapping[str, Any]

    def manifest(self, edit: int) -> dict[str, Any]:
        """The InferenceModel after so many edits; each of them replaces the pods."""
        rollout: dict[str, Any] = {"strategy": self.strategy}
        if self.strategy == "BlueGreen":
            rollout["blueGreen"] = {"keepSeconds": 10}
        runtime = {"env": [{"name": "EDIT", "value": str(edit)}]}
        return digits(
            self.name, replicas=self.replicas, rollout=rollout, runtime=runtime, **self.spec
        )


MODELS: Mapping[str, Model] = {
    each.name: each
    for each in (
        Model("pair", OIP_HTTP, 2, "RollingUpdate", {"protocol": "OpenInference"}),
        Model(
            "calls",
            OIP_GRPC,
            1,
            "RollingUpdate",
            {"protocol": "OpenInference", "transport": "GRPC"},
        ),
        Model("tensors", TFS, 1, "Recreate", {"protocol": "TensorFlowServing"}),
        Model("greps", GRPS, 1, "BlueGreen", {"protocol": "GRPS"}),
        Model("contract", OIP_HTTP, 1, "RollingUpdate", {"contract": CONTRACT}),
        Model(
            "smoked",
            OIP_GRPC,
            2,
            "BlueGreen",
            {"smokeTests": {"policy": "Enforce", "tests": [SMOKE_TEST]}},
        ),
    )
}
