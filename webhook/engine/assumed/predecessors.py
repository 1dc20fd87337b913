"""Pods that were recreated under their name, and are assumed before a watch shows that: who is meant by an event.

The API server has the new pod when its binding is reviewed. Until the watch has caught up, all that it shows of this
name is about earlier pods, of which there may be several, and does not end what the new one was given.
"""


class Predecessors:
    """The assumed pods (namespace/name) that no event has shown yet."""

    def __init__(self) -> None:
        self._unshown: dict[str, str] = {}  # namespace/name -> uid

    def note(self, pod: str, uid: str, shown: str) -> None:
        """The pod with this uid is assumed. shown: the uid that was shown last for its name; empty if none is."""
        if shown != uid:
            self._unshown[pod] = uid

    def forget(self, pod: str) -> None:
        """It is no longer assumed."""
        self._unshown.pop(pod, None)

    def are_meant(self, pod: str) -> bool:
        """Whether a deletion under this name is about an earlier pod."""
        return pod in self._unshown

    def seen(self, pod: str, uid: str) -> bool:
        """Take an event of the pod with this uid; whether it is about an earlier one. The assumed one ends that."""
        if self._unshown.get(pod, uid) != uid:
            return True
        self.forget(pod)
        return False
