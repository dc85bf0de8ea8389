"""Evidence of single ranks, which every answer about a job rests on."""
