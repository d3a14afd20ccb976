"""HTTP: routes, guards, handlers, documents and pages."""
