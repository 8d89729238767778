"""Names that are none, against a real API server: they never reach another object."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.operator_cluster import Api, model

pytestmark = pytest.mark.integration

MOORAGE = Path(sys.executable).parent / "moorage"


@pytest.mark.parametrize("name", ["", ".", "..", "rose/", "/"])
def test_a_name_that_is_none_deletes_no_model(api: Api, name: str) -> None:
    for each in ("iris", "rose"):
        api.apply(model(each))

    done = subprocess.run(
        [
            *(MOORAGE, "delete", name, "--yes"),
            *("-n", api.namespace, "--kubeconfig", str(api.kubeconfig)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert {each["metadata"]["name"] for each in api.list("InferenceModel")} == {"iris", "rose"}
    assert (done.returncode, done.stdout) == (2, "")
    assert "NAME" in done.stderr
