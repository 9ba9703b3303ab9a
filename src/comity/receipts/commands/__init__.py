"""`comity verify`, and `comity receipt`."""
