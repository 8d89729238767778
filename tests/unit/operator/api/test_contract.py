"""spec.contract: the declared tensors, and a sentence for each invalid one."""

from typing import Any

import pytest

from moorage_operator.api.contract import Contract, ContractPolicy, DeclaredTensor
from support.operator_values import model
from support.spec_sentences import DATATYPES, UNKNOWN

SHAPE = "a list of at most 32 sizes, such as [-1, 4]; -1 means any size"


def problems(contract: Any) -> list[str]:
    return [str(problem) for problem in model(contract=contract).problems]


def test_tensors_are_read_in_their_order() -> None:
    inputs = [{"name": "b", "datatype": "FP32", "shape": [-1, 4]}, {"name": "a"}]
    outputs = [{"name": "label", "shape": []}]
    parsed = model(contract={"policy": "Enforce", "inputs": inputs, "outputs": outputs})

    assert parsed.problems == ()
    assert parsed.contract == Contract(
        ContractPolicy.ENFORCE,
        (DeclaredTensor("b", "FP32", (-1, 4)), DeclaredTensor("a", "", None)),
        (DeclaredTensor("label", "", ()),),
    )


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize(
    ("policy", "compared", "enforced"),
    [("Ignore", False, False), ("Warn", True, False), ("Enforce", True, True)],
)
def test_the_policy_decides_about_declared_tensors(
    side: str, policy: str, compared: bool, enforced: bool
) -> None:
    contract = model(contract={"policy": policy, side: [{"name": "a"}]}).contract

    assert (contract.is_compared, contract.is_enforced) == (compared, enforced)


@pytest.mark.parametrize("contract", [{}, {"policy": "Warn"}, {"policy": "Enforce"}])
def test_without_tensors_nothing_is_compared(contract: Any) -> None:
    parsed = model(contract=contract)

    assert parsed.problems == ()
    assert not parsed.contract.is_compared
    assert not parsed.contract.is_enforced


def test_the_largest_contract_is_accepted() -> None:
    shape = [-1, 2**63 - 1, *[0] * 30]
    inputs = [{"name": str(at), "shape": shape} for at in range(256)]
    parsed = model(contract={"inputs": inputs})

    assert parsed.problems == ()
    assert parsed.contract.inputs[255] == DeclaredTensor("255", "", tuple(shape))


@pytest.mark.parametrize(
    ("contract", "expected"),
    [
        (
            {"outputs": [{"name": str(at)} for at in range(257)]},
            ["spec.contract.outputs: has 257 tensors: must have at most 256"],
        ),
        (
            {"inputs": [{"datatype": "FP32"}]},
            ["spec.contract.inputs[0].name: is required and must be the name of a tensor"],
        ),
        (
            {"inputs": [{"name": "a", "datatype": "float"}]},
            [
                (
                    "spec.contract.inputs[0].datatype: 'float' is invalid: must be one of "
                    f"{DATATYPES}"
                )
            ],
        ),
        (
            {"outputs": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            ["spec.contract.outputs: duplicate name 'a': names must be unique"],
        ),
        ({"size": 1}, [f"spec.contract.size: {UNKNOWN}"]),
        (
            {"inputs": [{"name": "a", "size": 4}]},
            [f"spec.contract.inputs[0].size: {UNKNOWN}"],
        ),
    ],
)
def test_an_invalid_contract_is_reported(contract: Any, expected: list[str]) -> None:
    assert problems(contract) == expected


@pytest.mark.parametrize(
    "shape", [4, "4", {}, [-2], [2**63], [True], [1.0], ["4"], [None], [[4]], [1] * 33]
)
def test_an_invalid_shape_is_reported(shape: Any) -> None:
    (found,) = problems({"inputs": [{"name": "a"}, {"name": "b", "shape": shape}]})

    path, _, rest = found.partition(": ")
    assert path == "spec.contract.inputs[1].shape"
    assert rest.startswith(repr(shape)[:77])
    assert rest.endswith(f" is invalid: must be {SHAPE}")
