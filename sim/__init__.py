"""Simulation of whole worlds around the coordinator, each determined by one seed.
`python -m sim --seed N` runs one world and prints its transcript; `--seeds A-B` runs
many. A world has the real runtime, coordinator, loader and log cleaner over a log in
memory, with a simulated environment: time, network, disk, topics, and members of both
protocols. Every run with the same seed is the same.
"""
