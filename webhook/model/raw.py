"""Objects of the API server as decoded from JSON: unchecked, never typed models, which drop fields newer than they."""

from collections.abc import Mapping
from typing import Any

Raw = Mapping[str, Any]
"""An object that is read."""
Draft = dict[str, Any]
"""An object that is written or still changed."""
