"""Long statistical suites, run by `make verify`."""
