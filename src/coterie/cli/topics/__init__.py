"""The commands about topics, one verb a file."""
