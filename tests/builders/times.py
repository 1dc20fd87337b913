"""Times of one day, with the fingerprint and the allocation that NRTs and pods have in tests."""

from typing import Any

SECOND = 1_767_225_600  # 2026-01-01T00:00:00Z


EMPTY = "pfp0v001ef46db3751d8e999"  # the fingerprint of no pods


def stamp(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def written(second: int) -> dict[str, Any]:
    """The metadata of an NRT whose exporter wrote its zones at this second."""
    return {"managedFields": [{"time": stamp(second), "fieldsV1": {"f:zones": {}}}]}


ALLOCATION = '{"node":"n0","numaNodeResources":[{"node":0,"resources":{"cpu":"9"}}]}'
