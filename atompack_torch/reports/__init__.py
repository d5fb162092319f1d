"""Reports: one pass over a data set, shown as one page of HTML."""
