"""Which pods of lower priority to end so that a waiting pod or gang fits."""
