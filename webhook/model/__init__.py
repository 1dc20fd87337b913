"""Typed, pure records of the input and output: quantities, pods, nodes, NUMA topology, policies, admission reviews."""
