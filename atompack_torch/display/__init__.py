"""HTML for notebooks and reports: escaped markup, small charts, chips of elements."""
