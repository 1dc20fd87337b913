"""Typed, pure records of what goes in and out: quantities, pods, nodes, NUMA topology, policies, admission reviews."""
