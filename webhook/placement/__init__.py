"""The controller of what must wait: gates and groups."""
