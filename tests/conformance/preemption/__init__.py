"""Victims of single pods, as kube-scheduler chooses them."""
