"""Data in, pictures out: mask pictures, attention weights, plots, recorded runs."""
