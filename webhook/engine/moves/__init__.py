"""Which running pods to move elsewhere so that a waiting pod or gang fits."""
