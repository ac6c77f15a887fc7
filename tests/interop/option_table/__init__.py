"""A table of command lines for kafka-consumer-groups.sh and Coterie's drop-in."""
