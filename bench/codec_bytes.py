"""The bytes per number of the codecs."""

BYTES_PER_NUMBER = {"None": 4, "BF16": 2, "Int8": 1 + 4 / 256, "Int8Dynamic": 1 + 4 / 256}  # a scale for 256 numbers
