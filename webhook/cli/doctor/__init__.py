"""The checks of `topology-webhook doctor`: a file for each part of an installation."""
