"""What is reported of several replicas."""

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.decide.pods.replicas import worst

PENDING = Finding(Reason.PENDING, "pod a: waits")
FAILED = Finding(Reason.MODEL_LOAD_FAILED, "pod b: failed")


def test_the_most_informative_finding_has_the_number_of_others() -> None:
    assert worst([]) is None
    assert worst([PENDING]) == PENDING
    assert worst([PENDING, FAILED, PENDING]) == Finding(
        Reason.MODEL_LOAD_FAILED, "pod b: failed (and 2 more not ready)"
    )
