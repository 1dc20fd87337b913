"""Pods that were recreated under their name, and are assumed before a watch shows that: who is meant by an event.

The API server has the new pod when its binding is reviewed. Until the watch has caught up, what it shows of this name
is about the earlier pod, and does not end what the new one was given.
"""


class Predecessors:
    """Assumed pod (namespace/name) -> the uid of an earlier pod of its name that is still shown."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}

    def note(self, pod: str, uid: str, shown: str) -> None:
        """The pod with this uid is assumed. shown: the uid that was shown last for its name; empty if none is."""
        if shown not in {"", uid}:
            self._uids[pod] = shown

    def forget(self, pod: str) -> bool:
        """It is no longer assumed, or the earlier pod is gone; whether one was shown."""
        return self._uids.pop(pod, None) is not None

    def seen(self, pod: str, uid: str) -> bool:
        """Take an event of the pod with this uid; whether it is about the earlier one. Any other ends that."""
        if self._uids.get(pod) == uid:
            return True
        self.forget(pod)
        return False
