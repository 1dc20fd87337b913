"""Kubernetes' own objects: pods, nodes, owners, reviews."""
