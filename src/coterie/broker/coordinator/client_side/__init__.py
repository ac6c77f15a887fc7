"""Client-side assignors of KIP-848; off by default, and not part of Apache Kafka."""
