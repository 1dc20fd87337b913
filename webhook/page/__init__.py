"""The page: the views of the cluster as HTML, read-only, on a port of its own."""
