"""The gateway: group coordinators in front of any Kafka cluster, on its own log."""
