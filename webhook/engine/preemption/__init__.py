"""Which lower-priority pods to evict so that a waiting pod or gang fits."""
