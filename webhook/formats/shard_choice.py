"""The annotation that names the shard of a waiting pod: `<shard>`, or `<shard> <moves> <seconds>` after moves.

The default shard is `-`, which is no label value. Seconds are those since the epoch.
"""

from dataclasses import dataclass
from typing import Self

from webhook.model.names import SHARD
from webhook.model.raw import Raw
from webhook.model.shards import DEFAULT_SHARD

_DEFAULT = "-"


@dataclass(frozen=True, slots=True)
class ShardChoice:
    """The shard in which a pod waits for a node."""

    shard: str
    moves: int = 0
    """How often it was moved to another one."""
    moved_at: int = 0
    """When it was moved last, in seconds since the epoch."""

    def text(self) -> str:
        """The annotation's value."""
        shard = self.shard or _DEFAULT
        return f"{shard} {self.moves} {self.moved_at}" if self.moves else shard

    @classmethod
    def of(cls, raw: Raw) -> Self | None:
        """That of a pod; None if it has none, or one that we did not write."""
        text = ((raw.get("metadata") or {}).get("annotations") or {}).get(SHARD)
        if not isinstance(text, str):
            return None
        name, *rest = text.split(" ")
        shard = DEFAULT_SHARD if name == _DEFAULT else name
        if not rest:
            return cls(shard) if name else None
        if len(rest) != 2 or not all(one.isdecimal() and one.isascii() and len(one) <= 12 for one in rest):
            return None
        return cls(shard, int(rest[0]), int(rest[1]))
