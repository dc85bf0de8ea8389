"""The verdict of a job: accounts of its ranks, the replay, and what follows from them."""
