"""Who may read the metrics: what the API server says of a token, asked once in a while."""

from typing import Any

import pytest

from webhook.kube.api_errors import ClusterError, UnreachableError
from webhook.kube.metrics_access import Access, MetricsAccess
from webhook.model.raw import Raw


class TokenServer:
    """Knows the token `good` of prometheus, and `other` of a user without the right."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.now = 0.0
        self.down = False

    async def create(self, path: str, body: Raw) -> Raw:
        if self.down:
            raise UnreachableError("no answer")
        self.calls.append(body["spec"])
        if path.endswith("tokenreviews"):
            user = {"good": "prometheus", "other": "other"}.get(body["spec"]["token"])
            known = user is not None
            return {"status": {"authenticated": known, "user": {"username": user, "groups": ["g"]} if known else {}}}
        return {"status": {"allowed": body["spec"]["user"] == "prometheus"}}


@pytest.fixture
def server() -> TokenServer:
    return TokenServer()


@pytest.fixture
def access(server: TokenServer) -> MetricsAccess:
    client: Any = server
    return MetricsAccess(client, lambda: server.now)


async def test_a_user_with_the_right_reads_and_the_answer_is_kept_for_a_minute(
    server: TokenServer, access: MetricsAccess
) -> None:
    for server.now in (0.0, 59.0):
        assert await access.of("good") is Access.ALLOWED
    rights = {"user": "prometheus", "groups": ["g"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    assert server.calls == [{"token": "good"}, rights]
    server.now = 61.0
    await access.of("good")
    assert len(server.calls) == 4


@pytest.mark.parametrize(
    ("token", "expected", "calls"),
    [
        ("other", Access.FORBIDDEN, 2),
        ("forged", Access.UNKNOWN, 1),
        ("", Access.UNKNOWN, 0),
        ("x" * 20_000, Access.UNKNOWN, 0),
    ],
)
async def test_others_do_not(
    server: TokenServer, access: MetricsAccess, token: str, expected: Access, calls: int
) -> None:
    for server.now in (0.0, 9.0):
        assert await access.of(token) is expected
    assert len(server.calls) == calls


async def test_what_clients_send_fills_no_memory(access: MetricsAccess) -> None:
    for number in range(1000):
        await access.of(f"forged-{number}")
    assert len(access._answers) == 64


async def test_without_an_answer_nobody_reads_and_the_next_one_asks_again(
    server: TokenServer, access: MetricsAccess
) -> None:
    server.down = True
    assert issubclass(UnreachableError, ClusterError)
    assert await access.of("good") is Access.UNDECIDED
    server.down = False
    assert await access.of("good") is Access.ALLOWED
