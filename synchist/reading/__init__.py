"""Reading: indices, strictness, views, reductions and decisions."""
