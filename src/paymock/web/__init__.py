"""The service over HTTP. `app` assembles it, `application` answers requests."""
