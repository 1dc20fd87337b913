"""What a cluster autoscaler is asked, and for whom."""
