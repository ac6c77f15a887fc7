"""Random requests on Apache Kafka and Coterie side by side; answers are compared."""
