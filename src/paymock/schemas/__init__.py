"""Every JSON body, declared once as a msgspec type: decoding, validation, and the OpenAPI documents read
these types. `public` has the bodies of `/v1`, `control` those of `/_mock`.
"""
