"""The interface between server and webhooks: one class per webhook, with one method.

Source: controller-runtime pkg/webhook/admission/webhook.go (Handler, Request, Response).
"""

from collections.abc import Awaitable
from typing import Final, Protocol

from webhook.admission.response import Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest


class Handler(Protocol):
    """Answers the reviews of one webhook."""

    def handle(self, request: AdmissionRequest) -> Response | Awaitable[Response]:
        """Answer at once, or wait until before the request's deadline.

        Raises NotNowError or LeaderNeededError.
        """


class NotNowError(Exception):
    """No answer from this replica now. Another replica can answer, or this one later."""


class LeaderNeededError(Exception):
    """Only the leader can answer: what it has reserved, and no object shows yet, is known to it alone.

    node: the node of which that must be known; empty: of any. otherwise: the answer if the leader cannot be asked.
    """

    def __init__(self, node: str, otherwise: Response) -> None:
        super().__init__(node, otherwise)
        self.node: Final = node
        self.otherwise: Final = otherwise
