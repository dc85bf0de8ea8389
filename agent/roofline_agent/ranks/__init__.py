"""Which processes of this node are ranks of which job, and what they say of themselves."""
