"""The placement engine: numpy only; no I/O, no clock, no cluster."""
