"""A simulation of whole worlds around the coordinator; see `python -m sim --help`."""
