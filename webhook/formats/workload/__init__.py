"""Workloads of every known kind as gangs of pods, and the topology they request."""
