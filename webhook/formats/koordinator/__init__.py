"""Koordinator's annotations and objects: the NUMA policy a pod requests, and its NUMA allocation."""
