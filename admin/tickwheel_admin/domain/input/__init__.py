"""Reading what people and programs send."""
