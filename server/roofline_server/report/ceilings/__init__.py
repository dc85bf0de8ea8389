"""What the machines of a job can do: their ceilings, and the roofs these make."""
