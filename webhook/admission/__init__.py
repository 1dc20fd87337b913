"""What answers an AdmissionReview: a room per webhook."""
