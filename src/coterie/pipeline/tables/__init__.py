"""Declarations of every table of the lake."""
