"""The resources of the API, computed from what is stored: records become payments, attempts, webhook
endpoints, checkouts and timelines. Pure, like the rules that they apply.
"""
