"""The leader's control loops, one per file."""
