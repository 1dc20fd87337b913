"""The leader's loops, a file each."""
