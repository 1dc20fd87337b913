"""KAI-Scheduler's objects and annotations."""
