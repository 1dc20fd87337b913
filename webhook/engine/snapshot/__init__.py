"""The cluster's nodes as arrays, and snapshots of them with assumed pods subtracted."""
