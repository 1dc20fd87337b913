"""The assumed pods, by pod and by node."""

from collections.abc import Iterable

from webhook.engine.assumed.assumed_pod import AssumedPod


class AssumedIndex:
    """At most one assumed pod for each pod (namespace/name)."""

    def __init__(self) -> None:
        self._pods: dict[str, AssumedPod] = {}
        self._on: dict[str, dict[str, AssumedPod]] = {}

    def get(self, key: str) -> AssumedPod | None:
        """What the pod was given and no object shows yet; None if there is nothing."""
        return self._pods.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def put(self, assumed_pod: AssumedPod) -> None:
        """Add an assumed pod. One of the same key may only be present on the same node: it is replaced."""
        self._pods[assumed_pod.pod] = assumed_pod
        self._on.setdefault(assumed_pod.node, {})[assumed_pod.pod] = assumed_pod

    def pop(self, key: str) -> AssumedPod | None:
        """Remove and return an assumed pod; None if there is none."""
        assumed_pod = self._pods.pop(key, None)
        if assumed_pod is not None:
            on_node = self._on[assumed_pod.node]
            del on_node[key]
            if not on_node:
                del self._on[assumed_pod.node]
        return assumed_pod

    def on(self, node: str) -> Iterable[AssumedPod]:
        """The assumed pods of a node, in the order in which they were assumed."""
        return self._on.get(node, {}).values()

    def binding_to(self, node: str) -> tuple[AssumedPod, ...]:
        """The assumed pods whose bindings to the node no object shows yet."""
        return tuple(assumed_pod for assumed_pod in self.on(node) if assumed_pod.is_binding)

    @property
    def count(self) -> int:
        """The number of assumed pods without the tentative ones: those may never be bound."""
        return sum(not assumed_pod.tentative for assumed_pod in self._pods.values())

    def expired(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that have expired at `now`, on the clock of `expires`. The caller has to check them."""
        return tuple(assumed_pod for assumed_pod in self._pods.values() if assumed_pod.expires <= now)
