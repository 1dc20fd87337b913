"""The webhooks on workloads."""
