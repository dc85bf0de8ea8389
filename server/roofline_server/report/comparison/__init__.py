"""Two jobs side by side: what differed, and what that did."""
