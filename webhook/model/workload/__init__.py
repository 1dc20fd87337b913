"""Workloads of every known kind as gangs of pods, and what they ask of the topology."""
