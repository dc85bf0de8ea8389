"""Commands of `roofline-server` other than serving: they change who may do what, while it runs or not."""
