"""The commands about access control lists, one verb a file."""
