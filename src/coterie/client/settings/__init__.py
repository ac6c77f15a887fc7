"""Connection settings by Kafka's names, and their conversion to client options."""
