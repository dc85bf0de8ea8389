"""What the server keeps: inbox (durable at once), segments (Parquet), catalog (what is where), reader."""
