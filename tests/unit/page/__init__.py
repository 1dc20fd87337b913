"""Tests of webhook/page."""
