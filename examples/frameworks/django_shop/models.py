from django.conf import settings
from django.db import models

from payments import FINAL, Payments


class Order(models.Model):
    id = models.CharField(primary_key=True, max_length=80)
    payment_id = models.CharField(max_length=80, default="")  # empty until the service has answered
    is_final = models.BooleanField(default=False)
    is_delivered = models.BooleanField(default=False)

    def pay(self):
        """Creates the payment, if it is missing."""
        if not self.payment_id:
            self.payment_id = payments().create(self.id)
            self.save(update_fields=["payment_id"])

    def poll(self):
        """Reads the payment once, and delivers if it is completed."""
        self.pay()
        status = payments().status(self.payment_id)
        if status in FINAL:  # once, in whatever process
            Order.objects.filter(id=self.id, is_final=False).update(
                is_final=True, is_delivered=status == "completed"
            )


def payments():
    return Payments(settings.PAYMENTS_URL, settings.PAYMENTS_API_KEY, settings.PAYMENTS_TIMEOUT)
