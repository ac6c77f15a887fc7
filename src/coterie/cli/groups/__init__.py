"""The commands about groups, one verb a file."""
