"""What is promised to pods and does not stand in the cluster's own numbers yet."""
