"""Assumed pods: resources given to pods that the cluster's own objects do not show yet."""
