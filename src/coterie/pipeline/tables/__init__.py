"""Every table of the lake, declared: one a file."""
