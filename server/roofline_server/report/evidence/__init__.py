"""What is known of each rank of a job: the evidence that every answer rests on."""
