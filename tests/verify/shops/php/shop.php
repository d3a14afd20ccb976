<?php
// A shop over HTTP that polls when `GET /tick` is called: php -S 127.0.0.1:$PORT good.php. It keeps its orders in the
// file that STATE names. `decide` says what the reply to a poll makes of an order: "paid", "closed" or "open".

const TIMEOUT_SECONDS = 0.3;

/** The payment in the reply, or null when there is none. */
function send(string $path, ?array $body = null, string $key = ''): ?array
{
    $headers = ['Authorization: Bearer ' . getenv('PAYMOCK_API_KEY')];
    $options = ['timeout' => TIMEOUT_SECONDS, 'ignore_errors' => true];
    if ($body !== null) {
        array_push($headers, 'Content-Type: application/json', "Idempotency-Key: $key");
        $options += ['method' => 'POST', 'content' => json_encode($body)];
    }
    $context = stream_context_create(['http' => $options + ['header' => $headers]]);
    $reply = @file_get_contents(getenv('PAYMOCK_URL') . $path, false, $context);
    $payment = $reply === false ? null : json_decode($reply, true);
    return isset($payment['id']) ? $payment : null;
}

function create(string $orderId): ?array
{
    $coin = ['chain' => 'bsc', 'asset' => 'USDT'];
    $address = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
    return send('/v1/payments', [
        'order_id' => $orderId,
        'receive' => $coin + ['amount' => '25000000000000000000', 'address' => $address],
        'settlement' => ['mode' => 'same_chain_merchant_payout'],
        'pay_with' => [$coin],
    ], "payment-of-$orderId");
}

/** Answers one request. The server of `php -S` carries out one at a time. */
function serve(callable $decide): void
{
    $file = getenv('STATE');
    $orders = is_file($file) ? json_decode(file_get_contents($file), true) : [];
    [, $collection, $orderId] = explode('/', $_SERVER['REQUEST_URI']) + [2 => ''];
    switch ($collection) {
        case 'orders':
            $payment = create($orderId);
            if ($payment === null) {
                http_response_code(502);
            } else {
                $orders[$orderId] ??= ['payment' => $payment['id'], 'state' => 'open'];
            }
            break;
        case 'tick':
            foreach ($orders as &$order) {
                if ($order['state'] === 'open') {
                    $order['state'] = $decide(send("/v1/payments/{$order['payment']}"));
                }
            }
            break;
        case 'deliveries':
            echo (int) (($orders[$orderId]['state'] ?? null) === 'paid');
            break;
        case 'health':
            break;
        default:
            http_response_code(404);
    }
    file_put_contents($file, json_encode($orders));
}
