"""A request's body, read into one buffer that grows with what has come."""

from aiohttp import web


class TooLargeError(Exception):
    """The body is larger than is taken."""


async def read_body(request: web.Request, largest: int) -> bytearray:
    """The whole body, of `largest` bytes at most; raises TooLargeError as soon as it is known to be larger.

    Not `request.read()`: it has aiohttp hold twice the largest body for each request before the first byte is taken.
    """
    if (request.content_length or 0) > largest:
        raise TooLargeError
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > largest:
                raise TooLargeError  # noqa: TRY301 # the body goes as with any other fault
    except BaseException:
        # The exception's traceback leads to this frame and back: without this only the garbage collector, which comes
        # rarely, would free what has come so far.
        body.clear()
        raise
    return body
