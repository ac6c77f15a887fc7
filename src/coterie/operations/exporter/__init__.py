"""A Prometheus exporter of consumer groups: polls, times of logs, metrics, scrapes."""
