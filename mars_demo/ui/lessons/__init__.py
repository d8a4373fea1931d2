"""The lessons: chapters are data in `assets/lessons`, the kinds of their figures are code here."""
