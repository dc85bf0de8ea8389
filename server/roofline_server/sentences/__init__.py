"""The sentences that answers show: verdicts, reasons, origins, notes and advice, each a function of facts.

Logic elsewhere decides which fact holds and passes numbers and names; here they only get their words.
"""
