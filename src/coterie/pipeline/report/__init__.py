"""A report about a lake as one page of HTML, made with pyarrow and without Spark."""
