from django.core.management.base import BaseCommand

from django_shop.models import Order
from payments import UNKNOWN


class Command(BaseCommand):
    help = "Reads the payment of each open order once, and delivers what is completed. For cron."

    def handle(self, **options):
        for order in Order.objects.filter(is_final=False):
            try:
                order.poll()
            except UNKNOWN as error:  # says nothing about the payment
                self.stderr.write(f"{order.id} could not be polled: {error}")
