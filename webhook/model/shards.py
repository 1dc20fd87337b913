"""The shards of the nodes: each is led by one replica."""

from typing import Final

DEFAULT_SHARD: Final = ""
"""The shard of the nodes that name none, and of what belongs to no node. There is always this one."""

MOST_SHARDS: Final = 32
"""The most shards beside the default one: each replica reads the Lease of each every two seconds."""
