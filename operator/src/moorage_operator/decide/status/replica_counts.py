"""Sentences about the number of replicas, also where admission changed it; pure.

counts, observed Deployment, planned size --> parts of WorkloadAvailable, UpToDate and Ready
"""

from collections.abc import Collection

from moorage_operator.values.objects import DeploymentObserved

__all__ = ["counted", "size_sentence"]

REPLICAS = "spec.replicas"


def counted(count: int, desired: int, verb: str = "") -> str:
    """Return for example "1 of 2 replicas run", or "3 replicas run (2 wanted)"."""
    rest = f" {verb}" if verb else ""
    if count > desired:
        return f"{count} replicas{rest} ({desired} wanted)"
    return f"{count} of {desired} replicas{rest}"


def size_sentence(
    deployment: DeploymentObserved | None,
    name: str,
    desired: int,
    applied_hashes: Collection[str],
) -> str:
    """Say that admission changed the size of a Deployment; "" if it did not.

    When another client changes the size, the operator no longer owns the field, and sets it again.
    When a webhook or a policy changes it during the operator's own write, the operator still owns
    it, and to write again would change nothing.

    Args:
        deployment: The observed Deployment.
        name: Its name.
        desired: Its planned size.
        applied_hashes: The hashes of the planned objects.
    """
    if deployment is None or deployment.applied_hash not in applied_hashes:
        return ""
    if deployment.size is None or deployment.size == desired:
        return ""
    return (
        f'admission changed {REPLICAS} of the Deployment "{name}" from {desired} to '
        f"{deployment.size}"
    )
