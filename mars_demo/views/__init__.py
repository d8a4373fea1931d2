"""Views of data: mask pictures, attention weights, plots and recorded runs."""
