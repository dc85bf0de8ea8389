"""Which processes of this node are ranks of which job, and their settings and tags."""
