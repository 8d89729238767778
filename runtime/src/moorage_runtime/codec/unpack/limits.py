"""Limits on an unpacked request: every compressed body, JSON text and protobuf message. Pure.

A compressed body, a JSON text or a protobuf message of a few megabytes can unpack to gigabytes of
objects. These limits keep the memory of a request, and the time of a parser call, during which no
other thread runs, within the range of usual large requests.
"""

from typing import Final

# Strings, list elements and object members; a parser takes about 50 ms for this many.
VALUES: Final = 1024 * 1024
# Default limit on a JSON text; a batch of five images of 224 by 224 pixels is smaller.
JSON_BYTES: Final = 16 * 1024 * 1024
# JSON arrays and objects take about 100 bytes each, and Python's garbage collector visits them.
JSON_PARTS: Final = 256 * 1024
# Nesting of a JSON text: more than any tensor needs, and far below the limits of a parser.
JSON_DEPTH: Final = 100
# Protobuf messages without tensors contain a name and a version.
SMALL_MESSAGE_BYTES: Final = 64 * 1024
# Inputs and outputs of a request, or all submessages of a protobuf message.
TENSORS: Final = 16 * 1024
# Varints of a packed protobuf field, where one byte on the wire becomes 8 in memory.
PACKED: Final = 8 * VALUES
# Members of a gzip file; one with blocks of 64 KiB has 1,024 of them in 64 MiB.
GZIP_MEMBERS: Final = 4096
