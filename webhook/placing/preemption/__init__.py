"""Which pods are ended for which, and what the room that they leave is kept for."""
