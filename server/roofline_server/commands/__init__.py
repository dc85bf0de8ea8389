"""Commands of `roofline-server` beside serving: they change who may do what, while it runs or not."""
