"""What comes with each answer besides it: how much of the server who asks again and again may take."""

from __future__ import annotations

# Of gRPC's trailing metadata; a share of one core, as "0.25". A server that is busy with batches grants less.
SHARE = "roofline-share"
