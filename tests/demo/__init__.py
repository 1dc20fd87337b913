"""`make demo`: the main purpose for a newcomer, first offline and then on a real control plane."""
