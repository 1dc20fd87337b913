"""The files that the browser loads: few and small, so they are kept in memory."""

from pathlib import Path
from typing import Final

from aiohttp import web

FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class StaticFiles:
    """The files of the folder `static`, by name."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.suffix in _TYPES}

    async def handle(self, request: web.Request) -> web.Response:
        """Answer with the file `name`."""
        name = request.match_info["name"]
        if name not in self._files:
            return web.Response(status=404, text="There is no such file.\n")
        return web.Response(body=self._files[name], content_type=_TYPES[Path(name).suffix], charset="utf-8")
