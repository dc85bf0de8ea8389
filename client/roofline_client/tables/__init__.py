"""Answers as text and as tables, a file for each kind of answer."""
