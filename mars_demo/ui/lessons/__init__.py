"""Lessons: chapters are data in `assets/lessons`; the kinds of figures beside them are code here."""
