"""What would be placed where, and what keeps the rest waiting: without I/O, a clock or an event loop."""
