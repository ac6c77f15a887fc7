"""The commands about what groups committed, one verb a file."""
