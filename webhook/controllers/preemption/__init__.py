"""Preemption for gated pods and gangs: pods of lower priority end, and their place is held for the preemptor."""
