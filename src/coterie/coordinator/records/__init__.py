"""The records of `__consumer_offsets` as typed values, and their bytes (`serde`)."""
