"""Raw requests that show facts on Coterie and on Apache Kafka."""
