"""What comes with each answer in addition to it: what it took, and how much who asks again and again may
take."""

from __future__ import annotations

# Keys of gRPC's trailing metadata. A share of one core, as "0.25": a server that is busy with batches grants
# less.
SHARE = "roofline-share"
SECONDS = "roofline-seconds"  # of CPU time; 0 where the answer was computed for somebody else
