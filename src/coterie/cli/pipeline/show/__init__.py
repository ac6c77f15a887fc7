"""Reads the tables of a lake, by pyarrow alone: nothing here starts Spark."""
