"""What happened in a group, replayed from its records, without Spark."""
