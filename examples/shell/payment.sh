# payment.sh
set -eu
url=${PAYMOCK_URL:-http://127.0.0.1:8402}
name=test-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
case ${PAYMOCK_API_KEY:=mk_test_$name} in
  mk_test_*) key=$PAYMOCK_API_KEY ;;
  *) key=$PAYMOCK_API_KEY.$name ;; # the server has keys
esac
call() {
  curl -sS --fail-with-body -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$@"
}

call -o /dev/null -X PUT "$url/_mock/clock" -d '{"speed": 0}'

# The first reply gets lost. curl tries again, with the same idempotency key, so there is one payment.
id=$(call --retry 2 --retry-all-errors --retry-max-time 60 "$url/v1/payments" \
  -H 'X-Mock-Fault: drop; times=1' -H 'Idempotency-Key: order-1001-payment' -d '{
    "order_id": "order-1001",
    "receive": {
      "chain": "bsc",
      "asset": "USDT",
      "amount": "1000000000000000000",
      "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    },
    "settlement": {"mode": "same_chain_merchant_payout"},
    "pay_with": [{"chain": "bsc", "asset": "USDT"}]
  }' | sed -n 's/.*{"id":"\(pay_[^"]*\)".*/\1/p')

call -o /dev/null "$url/_mock/clock/advance" -d '{"seconds": 45}'
payments=$(call "$url/_mock/payments")
case $payments in
  *'"id":"pay_'*'"id":"pay_'*) echo "a second payment: $payments" >&2 && exit 1 ;;
  *"\"id\":\"$id\",\"status\":\"completed\""*) echo completed ;;
  *) echo "not completed: $payments" >&2 && exit 1 ;;
esac
