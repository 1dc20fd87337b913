"""Trees of topology domains over node labels."""
