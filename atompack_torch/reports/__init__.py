"""Reports: one pass over a dataset, shown as one page of HTML."""
