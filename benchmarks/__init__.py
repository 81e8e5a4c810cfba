"""Timings, run by `make bench` and `make timings`."""
