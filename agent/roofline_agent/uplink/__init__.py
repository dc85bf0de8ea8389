"""From this node to the server: batches encoded, kept on disk, streamed until acknowledged."""
