"""A Gateway that exists only in the statuses of routes, on a control plane without nodes."""

from datetime import UTC, datetime

from support.operator_cluster import Api, eventually


class Gateway:
    """The status of a route as written by the controller of the Gateway `web`."""

    def __init__(self, api: Api, name: str = "iris") -> None:
        self._api = api
        self._name = name

    def say(self, *, accepted: bool = True, message: str = "") -> None:
        """Set the Gateway's conditions for the current route."""
        route = eventually("a route", lambda: self._api.get("HTTPRoute", self._name))
        statuses = {"Accepted": accepted, "ResolvedRefs": True}
        conditions = [
            {
                "type": type_,
                "status": str(status),
                "reason": type_ if status else "NotAllowedByListeners",
                "message": message,
                "observedGeneration": route["metadata"]["generation"],
                "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            for type_, status in statuses.items()
        ]
        parent = {
            "parentRef": {"name": "web"},
            "controllerName": "example.com/gateway",
            "conditions": conditions,
        }
        self._api.patch_status("HTTPRoute", self._name, {"parents": [parent]})

    def weights(self) -> list[int]:
        """The share of each backend, in the route's order."""
        route = self._api.get("HTTPRoute", self._name)
        return [each["weight"] for each in route["spec"]["rules"][1]["backendRefs"]]

    def take(self, *weights: int) -> None:
        """Wait for a route with these weights, and accept it."""
        eventually(f"weights {weights}", lambda: self.weights() == list(weights))
        self.say()
