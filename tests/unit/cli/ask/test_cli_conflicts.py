"""The fields that an apply leaves to their owners, from the answer of an API server."""

import json

import pytest
from kubernetes.client.exceptions import ApiException

from moorage_cli.ask.api_failures import Conflict, failures_of

# As kube-apiserver 1.34 answers an apply of a field that another manager has set.
OWNED = {
    "reason": "Conflict",
    "message": 'Apply failed with 1 conflict: conflict with "moorage-cli" using '
    "moorage.dev/v1alpha1: .spec.model.uri",
    "details": {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "moorage-cli" using moorage.dev/v1alpha1',
                "field": ".spec.model.uri",
            }
        ]
    },
}
CHANGED = {"reason": "Conflict", "message": "the object has been modified", "details": {}}


@pytest.mark.parametrize(
    ("answer", "owned"), [(OWNED, ((".spec.model.uri", "moorage-cli"),)), (CHANGED, ())]
)
def test_a_conflict_has_the_fields_that_others_own(answer, owned):
    error = ApiException(status=409, reason="Conflict")
    error.body = json.dumps(answer)

    with pytest.raises(Conflict) as caught, failures_of("InferenceModel ns/iris"):
        raise error

    assert caught.value.owned == owned
    assert str(caught.value) == f"InferenceModel ns/iris: {answer['message']}"
