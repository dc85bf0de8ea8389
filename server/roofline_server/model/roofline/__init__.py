"""Work, traffic and time as points under roofs, and what these show."""
