"""The changes of a collection as they happen: one LIST, then watches, each from where the last one ended.

The API server cuts off watches that read too slowly or are some minutes old, and every watch when it is killed.
If it no longer has a version (410 Gone, after a restart), there is an `ERROR` and then another LIST. Objects that were
created and deleted in between stay unseen.
"""

from __future__ import annotations

import contextlib
import http.client
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from tests.cluster.api import Api

LISTED, ERROR = "LISTED", "ERROR"
PAUSE_SECONDS = 0.1


def followed(api: Api, path: str, ended: threading.Event) -> Iterator[tuple[str, Any]]:
    """`LISTED` with the list; `ADDED`, `MODIFIED`, `DELETED` with an object; `ERROR` with a Status. Until `ended`.

    path: of the collection; it may have a query.
    """
    query = "&" if "?" in path else "?"
    version = ""
    while not ended.is_set():
        # The API server may be away for a while.
        with contextlib.suppress(http.client.HTTPException, OSError, ApiError):
            if not version:
                listed = api.get(path)
                yield LISTED, listed
                version = listed["metadata"]["resourceVersion"]
            for event in api.watch(f"{path}{query}watch=1&allowWatchBookmarks=true&resourceVersion={version}"):
                if event["type"] == ERROR:
                    yield ERROR, event["object"]
                    version = ""
                    break
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield event["type"], event["object"]
        ended.wait(PAUSE_SECONDS)
