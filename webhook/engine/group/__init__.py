"""Where a whole group of pods goes: one domain or the fewest, down to the node and NUMA node of every pod."""
