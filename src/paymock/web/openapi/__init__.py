"""The two OpenAPI documents, generated from the tables of operations and the schemas."""
