"""What the process measures of itself, for Prometheus."""
