"""Whole worlds around the coordinator, each decided by one seed.

`python -m sim --seed N` runs one world and tells what happened; `--seeds A-B` runs
many. A world is the real runtime, coordinator, loader and compactor over a log in
memory, with everything around them simulated: time, the network, the disk, topics, and
members of both protocols. Nothing in it happens by itself and nothing by chance but
what its seed says, so a seed replays exactly.
"""
