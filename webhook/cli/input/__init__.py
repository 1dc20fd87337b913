"""What commands read: files, a recorded or a live cluster."""
