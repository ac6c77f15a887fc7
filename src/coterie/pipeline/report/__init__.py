"""What a lake's tables say, on one page and by pyarrow alone: nothing here starts
Spark."""
