"""What people look at: plain records, computed from the cluster cache by the engine, for commands and the page."""
