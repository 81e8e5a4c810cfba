"""Timings, run by `make bench`."""
