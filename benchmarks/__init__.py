"""What Coterie costs: each question is a file that ends in figures with bars.

`python -m benchmarks [NAME ...]` asks all or some. Both sides of a ratio run in one go
and in turns, the server pinned to one core and the generator to another; the figure is
the median of the rounds' ratios, since absolute rates on a shared machine say little.
"""
