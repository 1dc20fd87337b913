"""The running service, put together: settings and client in, informers, reviewers, controller and ports out."""
