"""Names for the array types of the engine.

Amounts are int64, cpu in millicores, every other resource in bytes or pieces. An axis is named by what it counts:
resource (R), zone (Z: a node's NUMA nodes packed ascending by id; a position is not an id), node (N).
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Amounts: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int32]
Codes: TypeAlias = npt.NDArray[np.int32]
Ids: TypeAlias = npt.NDArray[np.int16]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Enums: TypeAlias = npt.NDArray[np.int8]

UNLISTED: Final = -1
"""An amount that is not there: the zone does not list the resource, the node's allocatable lacks it."""
NO_ZONE: Final = -1
"""The NUMA id at a position the node does not have."""
UNKNOWN_DISTANCE: Final = 255
"""Distance of NUMA nodes that nobody published, as upstream assumes (ACPI's SLIT: unreachable)."""
