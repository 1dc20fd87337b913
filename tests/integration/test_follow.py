"""A collection is followed through watches that end and a restart of the API server."""

from __future__ import annotations

import threading
from queue import Queue
from typing import TYPE_CHECKING, Any

from tests.cluster.follow import LISTED, followed

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

SECONDS = 60.0


def test_every_change_is_told_also_after_the_api_server_was_killed(control_plane: ControlPlane, namespace: str) -> None:
    path, ended = f"/api/v1/namespaces/{namespace}/configmaps", threading.Event()
    told: Queue[tuple[str, Any]] = Queue()

    def follow() -> None:
        for each in followed(control_plane.api, f"{path}?labelSelector=ours", ended):
            told.put(each)

    def create(name: str, **labels: str) -> None:
        control_plane.api.create(path, {"metadata": {"name": name, "labels": labels}})

    create("first", ours="yes")
    threading.Thread(target=follow, daemon=True).start()
    try:
        kind, listed = told.get(timeout=SECONDS)
        assert (kind, [each["metadata"]["name"] for each in listed["items"]]) == (LISTED, ["first"])
        create("others")
        create("second", ours="yes")
        kind, found = told.get(timeout=SECONDS)
        assert (kind, found["metadata"]["name"]) == ("ADDED", "second")
        control_plane.restart("kube-apiserver")
        control_plane.wait_until_ready()
        create("third", ours="yes")
        while "third" not in names_from(told):
            pass  # a list, or the change before it again: where the watch goes on is the API server's to say
    finally:
        ended.set()


def names_from(told: Queue[tuple[str, Any]]) -> set[str]:
    """The names in the next event: of one change, or of a list if the API server no longer has the version."""
    while True:
        kind, found = told.get(timeout=SECONDS)
        if kind in {LISTED, "ADDED"}:
            return {each["metadata"]["name"] for each in found.get("items", [found])}
