"""Tests, and the real control plane that they run on."""
