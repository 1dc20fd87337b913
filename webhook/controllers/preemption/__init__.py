"""Preemption for gated pods and gangs: lower-priority pods are evicted, and their nodes reserved for the preemptor."""
