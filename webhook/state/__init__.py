"""The cluster cache: pod info and snapshots. Informers fill it; admission and controllers read it."""
