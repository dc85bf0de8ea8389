"""Who the ranks of a job are, where each computes, and what they share there."""
