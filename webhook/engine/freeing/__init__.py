"""Which pods would have to end so that another one fits."""
