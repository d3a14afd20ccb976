"""Every JSON body, declared once as a msgspec type, and the decoding and validation of bodies. Validation,
the encoding of replies and the OpenAPI documents are all derived from these types.
"""
