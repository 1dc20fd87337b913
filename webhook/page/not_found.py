"""The error of a view that has nothing to show."""


class NotFoundError(Exception):
    """There is no such thing, or no longer; the message is a sentence for the reader. The answer is HTTP 404."""
