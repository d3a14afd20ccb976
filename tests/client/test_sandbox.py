"""The calls of a sandbox are those of the server."""

from paymock.client.sandbox import ROUTES
from paymock.web.operations import control, public


def test_each_operation_of_the_control_api_has_a_call() -> None:
    served = {}
    for operation in control.OPERATIONS:
        reply = operation.reply[0] if isinstance(operation.reply, tuple) else operation.reply
        served[operation.operation_id] = (operation.method, operation.path, reply and reply.__name__)
    creation = next(one for one in public.OPERATIONS if one.operation_id == "createPayment")
    served["createPayment"] = (creation.method, creation.path, "Payment")
    assert served == ROUTES
