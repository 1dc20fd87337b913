"""What is wrong in a cluster as it is, and what to do about it: the findings of `audit`."""
