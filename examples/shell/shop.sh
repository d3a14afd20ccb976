# shop.sh: a shop whose orders are folders.
#   sh shop.sh order ID        takes an order, and prints the id of its payment; after a failure, order again
#   sh shop.sh poll            reads the payment of each open order once, and delivers what is completed; for cron
#   sh shop.sh deliveries ID   prints how often an order was delivered
set -eu
url=${PAYMOCK_URL:-http://127.0.0.1:8402}
key=${PAYMOCK_API_KEY:-mk_test_demo}
orders=${ORDERS:-orders}
mkdir -p "$orders" && : >> "$orders/delivered"

# Prints the payment of a reply. All else is a failure, also the page of a proxy with status 200.
call() {
  reply=$(curl -sS --fail --max-time "${TIMEOUT:-10}" -H "Authorization: Bearer $key" "$@") &&
    echo "$reply" | grep '^{"id":"pay_'
}

# Prints the id of the payment of an order, which is created unless it is known.
order() {
  mkdir -p "$orders/$1" # before anything can fail
  if [ ! -e "$orders/$1/payment" ]; then
    payment=$(
      call "$url/v1/payments" -H 'Content-Type: application/json' -H "Idempotency-Key: payment-of-$1" -d '{
        "order_id": "'"$1"'",
        "receive": {
          "chain": "bsc",
          "asset": "USDT",
          "amount": "25000000000000000000",
          "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
        },
        "settlement": {"mode": "same_chain_merchant_payout"},
        "pay_with": [{"chain": "bsc", "asset": "USDT"}]
      }'
    ) || return
    echo "$payment" | sed 's/^{"id":"\([^"]*\)".*/\1/' > "$orders/$1/payment"
  fi
  cat "$orders/$1/payment"
}

poll() {
  for folder in "$orders"/*/; do
    if [ -d "$folder" ] && [ ! -d "$folder/closed" ]; then
      id=$(basename "$folder")
      # A failure says nothing about the payment: the order stays open.
      payment_id=$(order "$id") && payment=$(call "$url/v1/payments/$payment_id") || continue
      status=$(echo "$payment" | sed 's/^{"id":"[^"]*","status":"\([^"]*\)".*/\1/')
      case $status in
        completed) mkdir "$folder/closed" && echo "$id" >> "$orders/delivered" ;; # mkdir succeeds only once
        underpaid_expired | overpaid_review | manual_review | failed) mkdir "$folder/closed" ;; # not expired: the customer may pay late
      esac
    fi
  done
}

case ${1:-},${2:-} in
  *,*[!A-Za-z0-9._:-]* | *,.*) echo "not an order id: $2" >&2 && exit 2 ;; # it is the name of a folder, and in JSON
  order,?*) order "$2" ;;
  poll,) poll ;;
  deliveries,?*) grep -cFx -e "$2" "$orders/delivered" || true ;;
  *) sed -n '2,4s/^# *//p' "$0" >&2 && exit 2 ;;
esac
