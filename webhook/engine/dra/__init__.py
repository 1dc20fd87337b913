"""Dynamic Resource Allocation: the devices of each node, what a selector says of them, and which a pod's claims get."""
