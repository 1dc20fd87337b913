"""Checks of a node as a whole (resources, node affinity, taints), and a pod's preference among nodes."""
