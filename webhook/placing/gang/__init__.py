"""The members of a gang together: which start at once, in which domain, and what keeps them waiting."""
