"""The history of one group, replayed from its records, without Spark."""
