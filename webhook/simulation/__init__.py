"""Workloads on a cluster over simulated time, without and with the webhook: no socket, no clock."""
