"""The URL of an owner reference, and which answers are accepted."""

from typing import Any

import pytest

from webhook.formats.kubernetes.owner_chain import check_owner, check_owners
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.api_errors import APIError
from webhook.kube.owners import read_owner
from webhook.model.errors import UserError

JOB = Owner("batch/v1", "Job", "w", "uid", True)
FOUND = {"metadata": {"namespace": "ns", "name": "w", "uid": "uid"}}
HOSTILE = [
    "../../../../version?x=",
    "Pods?watch=1&x=",
    "a/b",
    "%2e%2e",
    "..",
    ".",
    "-a",
    "a-",
    "ä",
    "a b",
    "a\n",
    "a" * 254,
]


class FakeServer:
    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.asked: list[str] = []
        self._answer = answer

    async def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def read(answer: dict[str, Any] | Exception, owner: Owner = JOB) -> tuple[Any, list[str]]:
    server: Any = FakeServer(answer)
    return await read_owner(server, "ns", owner), server.asked


async def test_an_owner_is_read_in_the_pods_namespace() -> None:
    assert await read(FOUND) == (FOUND, ["/apis/batch/v1/namespaces/ns/jobs/w"])
    core = Owner("v1", "ReplicationController", "w", "uid", True)
    assert (await read(FOUND, core))[1] == ["/api/v1/namespaces/ns/replicationcontrollers/w"]


@pytest.mark.parametrize(
    "answer",
    [
        {"metadata": {"namespace": "ns", "name": "w", "uid": "another"}},
        {"metadata": {"namespace": "other", "name": "w", "uid": "uid"}},
        {"metadata": {"name": "w", "uid": "uid"}},
        {"metadata": []},
        {"major": "1", "minor": "36"},
        {},
        APIError(404, "NotFound", ""),
        APIError(403, "Forbidden", ""),
    ],
    ids=str,
)
async def test_what_is_not_that_object_of_that_namespace_is_no_owner(answer: dict[str, Any] | Exception) -> None:
    assert (await read(answer))[0] is None


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["api_version", "kind", "name"])
async def test_a_reference_that_can_name_no_object_is_never_read(field: str, text: str) -> None:
    if (field, text) == ("api_version", "a/b"):
        return  # a group and a version
    fields = {"api_version": "batch/v1", "kind": "Job", "name": "w", field: text}
    with pytest.raises(UserError, match="names no object that can own pods"):
        check_owner(Owner(uid="uid", controller=True, **fields))
    server: Any = FakeServer(FOUND)
    with pytest.raises(UserError):
        await read_owner(server, "ns", Owner(uid="uid", controller=True, **fields))
    assert server.asked == []


def test_an_error_shows_no_more_of_a_value_than_its_reader_needs() -> None:
    with pytest.raises(UserError) as refused:
        check_owner(Owner("batch/v1", "x?" * 100_000, "w", "uid", True))
    assert len(str(refused.value)) < 300


def test_owners_of_pods_that_take_nothing_from_them_are_nobodys_business() -> None:
    reference = {"apiVersion": "v1", "kind": "a?b", "name": "w", "uid": "u"}
    check_owners({"metadata": {"ownerReferences": [reference]}})
    with pytest.raises(UserError, match=r"metadata\.ownerReferences\.kind"):
        check_owners(
            {"metadata": {"ownerReferences": [reference], "annotations": {"topology-webhook.dev/inherit": "true"}}}
        )
