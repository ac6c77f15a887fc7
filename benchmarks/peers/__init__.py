"""Clients that prepare a server under test, and servers for comparison."""
