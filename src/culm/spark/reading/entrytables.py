"""Tables of entries that anybody may have made: whether their columns hold what is read from them."""

from __future__ import annotations

import pyarrow as pa

from culm.errors import ConfigError
from culm.spark.storage import Location

# The columns of a table that are read, and what each has to hold. A table made by somebody else may hold anything.
_COLUMNS = {
    "source": "text",
    "offset": "whole numbers",
    "encoded": "bytes",
    "payload_state": "text",
    "payload_frame": "bytes",
    "reason": "text",
}
_TEXT = {"string", "large_string", "string_view"}
_ARROW_TYPES = {
    "text": _TEXT,
    "bytes": {"binary", "large_binary", "binary_view", "fixed_size_binary", *_TEXT},
    "whole numbers": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"},  # what fits into a BIGINT
}


def check_columns(location: Location, schema: pa.Schema) -> None:
    """Raise ``ConfigError`` if a table has no column ``encoded``, or one that holds something else than it has to."""
    if "encoded" not in schema.names:
        raise ConfigError(f"{location}: a table of entries needs a binary column 'encoded'")
    for name in _COLUMNS.keys() & set(schema.names):
        if not _holds(schema.field(name).type, _COLUMNS[name]):
            raise ConfigError(
                f"{location}: the column '{name}' holds {schema.field(name).type}; in a table of entries it holds"
                f" {_COLUMNS[name]}"
            )


def _holds(found: pa.DataType, expected: str) -> bool:
    """Whether each value of an Arrow type can be read as what is expected."""
    # Columns of few different values are written as dictionaries, by pandas for instance.
    kind = str(getattr(found, "value_type", found)) if str(found).startswith("dictionary") else str(found)
    return kind == "null" or kind.partition("[")[0] in _ARROW_TYPES[expected]
