"""Tests, and the real control plane they run on."""
