"""The rules: (request, view of the cluster) -> decision. Pure; called without a socket."""
