"""Answers for people and programs."""
