import os

SECRET_KEY = os.environ.get("SECRET_KEY", "only for tests")
INSTALLED_APPS = ["django_shop"]
ROOT_URLCONF = "django_shop.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

PAYMENTS_URL = os.environ.get("PAYMENTS_URL")
PAYMENTS_API_KEY = os.environ.get("PAYMENTS_API_KEY")
PAYMENTS_TIMEOUT = 10
