"""The OpenAPI document, made of the declared routes."""
