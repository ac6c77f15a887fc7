"""Simulation of several gateway nodes in front of one upstream cluster."""
