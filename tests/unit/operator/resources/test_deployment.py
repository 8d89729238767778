"""The strategy of a Deployment."""

import pytest

from moorage_operator.resources.deployment import make_deployment
from moorage_operator.resources.pod_template import make_pod_template
from support.operator_values import CONFIG, model

ROLLING = {"maxSurge": 2, "maxUnavailable": 1}
AT_ONCE = {"maxSurge": 0, "maxUnavailable": "100%"}


@pytest.mark.parametrize(
    ("rollout", "is_mixed", "expected"),
    [
        (ROLLING, False, {"type": "RollingUpdate", "rollingUpdate": ROLLING}),
        (ROLLING, True, {"type": "RollingUpdate", "rollingUpdate": ROLLING}),
        ({"strategy": "Recreate"}, False, {"type": "Recreate"}),
        ({"strategy": "Recreate"}, True, {"type": "RollingUpdate", "rollingUpdate": AT_ONCE}),
    ],
)
def test_recreate_first_ends_a_rolling_update_in_progress(rollout, is_mixed, expected):
    of = model(rollout=rollout)

    made = make_deployment(of, make_pod_template(of, CONFIG), is_mixed=is_mixed)

    assert made["spec"]["strategy"] == expected


def test_pods_of_one_replica_set_are_the_default():
    of = model(rollout={"strategy": "Recreate"})

    assert make_deployment(of, make_pod_template(of, CONFIG))["spec"]["strategy"] == {
        "type": "Recreate"
    }
