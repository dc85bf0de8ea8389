"""Answers to questions as plain records: what the server computes and the client shows.

A file for each question. Every record has the fields of its message in roofline/v1, and `roofline.convert`
turns one into the other. Rates are FLOP/s and byte/s, times s, moments ns of UNIX time on the server's clock.
A number that can be absent is a `Value` without a number, or None.
"""
