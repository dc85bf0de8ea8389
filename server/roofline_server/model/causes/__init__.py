"""What costs a job time: which ranks, parts of their accounts, links and servers, and how much."""
