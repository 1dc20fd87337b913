"""The interface between server and webhooks: one class per webhook, with one method.

Source: controller-runtime pkg/webhook/admission/webhook.go (Handler, Request, Response).
"""

from collections.abc import Awaitable
from typing import Protocol

from webhook.admission.response import Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest


class Handler(Protocol):
    """Answers the reviews of one webhook."""

    def handle(self, request: AdmissionRequest) -> Response | Awaitable[Response]:
        """Answer at once, or wait until before the request's deadline. Raises NotNowError."""


class NotNowError(Exception):
    """No answer from this replica now. Another replica can answer, or this one later."""
