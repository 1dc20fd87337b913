"""Devices of Dynamic Resource Allocation."""
