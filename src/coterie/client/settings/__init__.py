"""Settings of a connection as text, with Kafka's names, and the options they mean."""
