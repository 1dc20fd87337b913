"""The cluster as decisions see it: pod info and snapshots. Informers fill it, admission and controllers read it."""
