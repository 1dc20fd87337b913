"""What a gang's placement says about its ProvisioningRequest."""

from collections.abc import Mapping
from typing import Final

from webhook.formats.autoscaling.node_group import CHECK_CAPACITY, ProvisioningClass
from webhook.formats.autoscaling.provisioning_request import Answer
from webhook.model.counted import counted
from webhook.model.json_text import shortened

NOT_SERVED: Final = "cluster-autoscaler is not asked for nodes: the cluster does not serve ProvisioningRequests"
UNANSWERED: Final = "cluster-autoscaler does not answer: does it run with --enable-provisioning-requests?"
CHANGED: Final = "its pods have changed since cluster-autoscaler was asked"
DELETED: Final = "another client deleted its ProvisioningRequest"
BEING_WRITTEN: Final = "it is being written"
REPLACED: Final = "its last ProvisioningRequest is cancelled before cluster-autoscaler is asked again"

_SAYS: Final[Mapping[Answer, str]] = {
    Answer.NONE: "no answer yet",
    Answer.ACCEPTED: "it is accepted",
    Answer.NO_CAPACITY: "there is no capacity now, and cluster-autoscaler tries again",
    Answer.PROVISIONED: "it is provisioned",
    Answer.FAILED: "it failed",
    Answer.EXPIRED: "its capacity was reserved for some minutes and no longer is",
    Answer.REVOKED: "its capacity was revoked",
}


def request_text(class_name: ProvisioningClass, asked: str, count: int, name: str = "") -> str:
    """What is asked by a request. asked: the clauses about node groups. name: of the request, if there is one."""
    pods = counted(count, "pod")
    request = f"ProvisioningRequest {name}" if name else "one ProvisioningRequest"
    if class_name == CHECK_CAPACITY:
        what = f"cluster-autoscaler is asked whether there is capacity for {pods} at once, and adds no node for that"
        return f"{what}; {request}"
    return f"{asked}; {request} for {pods} at once"


def answer_text(answer: Answer, detail: str = "") -> str:
    """The answer, with the reason and message of its condition."""
    return f"{_SAYS[answer]} ({detail})" if detail and answer is not Answer.ACCEPTED else _SAYS[answer]


def put_off_text(why: str) -> str:
    """Why it is not asked now."""
    return f"cluster-autoscaler is not asked for nodes now, and will be again: {why}"


def turn_text(most: int) -> str:
    """Why a gang has no request yet."""
    return f"cluster-autoscaler is asked for nodes when it is its turn: at most {most} ProvisioningRequests are open"


def too_many_text(most: int) -> str:
    """Why no request can be made."""
    return (
        f"cluster-autoscaler is not asked for nodes: its pods are of more than {most} different templates, "
        "and a ProvisioningRequest takes no more"
    )


def consumed_text(pod: str, name: str) -> str:
    """Why no request of ours is made."""
    return f"cluster-autoscaler adds no node for it: pod {pod} consumes ProvisioningRequest {shortened(name)}"
