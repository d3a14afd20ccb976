from tests.support.virtual_time import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
