"""What the work, the traffic and the time of steps are made of."""
