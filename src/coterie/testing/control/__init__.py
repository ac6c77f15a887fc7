"""The HTTP control API of `coterie serve --control`, see docs/testing/."""
