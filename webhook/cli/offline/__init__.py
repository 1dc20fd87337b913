"""What the service would do, without the service."""
