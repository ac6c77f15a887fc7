"""The one place that prints. A command returns an `Outcome`; `emit` shows it.

Modules here import nothing heavy at their top: what draws tables for terminals is only
imported when one is there.
"""
