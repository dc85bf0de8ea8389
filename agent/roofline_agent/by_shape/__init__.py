"""FLOPs and least traffic of operators, by shapes and types of their arguments. Pure, standard library."""
