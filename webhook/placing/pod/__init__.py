"""One pod: where it fits, what is written into it, in which words."""
