<?php // The shop of docs/php.md.

final class Shop
{
    public array $status = [];
    public array $delivered = [];
    private array $payments = [];

    public function __construct(private string $url, private string $apiKey)
    {
    }

    /** Creates the payment of an order. When this returns false, order again. */
    public function order(string $orderId): bool
    {
        $coin = ['chain' => 'bsc', 'asset' => 'USDT'];
        $address = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
        $payment = $this->send('/v1/payments', ["Idempotency-Key: payment-of-$orderId"], [
            'order_id' => $orderId,
            'receive' => $coin + ['amount' => '1000000000000000000', 'address' => $address],
            'settlement' => ['mode' => 'same_chain_merchant_payout'],
            'pay_with' => [$coin],
        ]);
        $this->payments[$orderId] = $payment['id'] ?? null;
        return $payment !== null;
    }

    /** Reads the payment of an order, and delivers the goods once it is completed. */
    public function poll(string $orderId): void
    {
        $status = $this->send("/v1/payments/{$this->payments[$orderId]}")['status'] ?? null;
        if ($status === 'completed' && !in_array($orderId, $this->delivered, true)) {
            $this->delivered[] = $orderId;
        }
        $this->status[$orderId] = $status ?? $this->status[$orderId] ?? null;
    }

    private function send(string $path, array $headers = [], ?array $body = null): ?array
    {
        $curl = curl_init($this->url . $path);
        curl_setopt_array($curl, [
            CURLOPT_FAILONERROR => true,
            CURLOPT_HTTPHEADER => [...$headers, "Authorization: Bearer $this->apiKey", 'Content-Type: application/json'],
            CURLOPT_RETURNTRANSFER => true,
        ] + ($body === null ? [] : [CURLOPT_POSTFIELDS => json_encode($body)]));
        $reply = curl_exec($curl);
        return $reply === false ? null : json_decode($reply, true);
    }
}
