"""Assignments that a member computes (KIP-848, Client Side Mode; not in Kafka, E13)."""
