"""HTML pages and static files: the dashboard, the checkout's templates, Swagger UI."""
