"""The webhook on nodes."""
