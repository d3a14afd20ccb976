import httpx
from django.http import JsonResponse
from django.urls import path

from django_shop.models import Order


def order(request, order_id):
    order, _ = Order.objects.get_or_create(id=order_id)  # before anything can fail
    try:
        order.pay()
    except (httpx.HTTPError, ValueError):
        return JsonResponse({"error": "Please order again."}, status=502)
    return JsonResponse({"payment_id": order.payment_id}, status=201)


urlpatterns = [path("orders/<order_id>", order)]
