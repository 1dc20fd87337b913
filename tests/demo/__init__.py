"""`make demo`: the main job before the eyes of a newcomer, offline first and then on a real control plane."""
