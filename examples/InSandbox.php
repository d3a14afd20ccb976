<?php // The helper of docs/php.md.

use PHPUnit\Framework\Attributes\Before;
use PHPUnit\Framework\AssertionFailedError;
use PHPUnit\Framework\IncompleteTest;
use PHPUnit\Framework\SkippedTest;

/** For a test case: each test has an empty sandbox with a frozen clock. If it fails, it prints what happened. */
trait InSandbox
{
    protected Sandbox $mock;

    /** @before */
    #[Before]
    protected function openSandbox(): void
    {
        $this->mock = Sandbox::open();
    }

    protected function onNotSuccessfulTest(Throwable $problem): never
    {
        try {
            if (isset($this->mock) && !$problem instanceof SkippedTest && !$problem instanceof IncompleteTest) {
                fwrite(STDERR, "\n{$this->toString()}: {$this->mock->dashboardUrl}\n" . $this->mock->describe());
            }
        } catch (RuntimeException) { // the server is gone
        }
        parent::onNotSuccessfulTest($problem);
    }
}

/** A wait ended without what it waited for. */
final class NotReached extends AssertionFailedError
{
}

/** Everything that belongs to one API key. Where it takes an order, a payment id will do. */
final class Sandbox
{
    public function __construct(
        public readonly string $url,
        public readonly string $apiKey,
        public readonly string $dashboardUrl,
    ) {
    }

    /** Returns an empty sandbox of the server at PAYMOCK_URL, with a frozen clock. */
    public static function open(): self
    {
        $url = getenv('PAYMOCK_URL') ?: throw new RuntimeException('run by: paymock exec -- phpunit tests');
        $name = getenv('PAYMOCK_SANDBOX') ?: 'test-' . bin2hex(random_bytes(16));
        $key = getenv('PAYMOCK_API_KEY') ?: "mk_test_$name";
        $mock = str_starts_with($key, 'mk_test_')
            ? new self($url, $key, "$url/#key=$key")
            : new self($url, "$key.$name", "$url/#sandbox=$name"); // the server has keys: each has KEY.NAME
        $mock->call('POST', '/_mock/reset'); // a chosen one may have been used before
        $mock->call('PUT', '/_mock/clock', ['speed' => 0]);
        return $mock;
    }

    public function advance(float $seconds): void
    {
        $this->call('POST', '/_mock/clock/advance', ['seconds' => $seconds]);
    }

    /** Advances one payment to a status, to the "next" change or to the "end". */
    public function advanceTo(string $order, string $to): array
    {
        return $this->call('POST', $this->path($order) . '/advance', ['to' => $to]);
    }

    /** Sets the scenario of the next payment. Options: `order_id`, `order_id_prefix`, `metadata`,
     * `times`; null: until a reset. */
    public function next(string $scenario, array $options = []): void
    {
        $this->call('POST', '/_mock/next', ['scenario' => $scenario] + $options);
    }

    /** Options: `operation`, `order_id`, `order_id_prefix`, `skip`, `times`; null: always. */
    public function fault(string $fault, array $options = []): array
    {
        return $this->call('POST', '/_mock/faults', ['fault' => $fault] + $options);
    }

    public function deposit(string $order, string $amount): array
    {
        return $this->call('POST', $this->path($order) . '/deposits', ['amount' => $amount]);
    }

    public function payment(string $order): array
    {
        return $this->call('GET', $this->path($order))['payment'];
    }

    /** The newest 200 payments. */
    public function payments(): array
    {
        return $this->call('GET', '/_mock/payments?limit=200')['data'];
    }

    public function requests(): array
    {
        return $this->call('GET', '/_mock/requests?limit=1000')['data'];
    }

    /** Waits for a payment, which need not exist yet; at most 60 seconds of real time. */
    public function waitFor(string $order, string $status, float $seconds = 30): array
    {
        $query = http_build_query(['order_id' => $order, 'status' => $status, 'timeout' => $seconds]);
        $reply = $this->call('GET', "/_mock/wait?$query");
        return $reply['reached'] ? $reply['payment'] : throw new NotReached($reply['message']);
    }

    public function describe(): string
    {
        return $this->send('GET', '/_mock/story');
    }

    /** Any call of the control API. */
    public function call(string $method, string $path, ?array $body = null): ?array
    {
        return json_decode($this->send($method, $path, $body), true);
    }

    private function send(string $method, string $path, ?array $body = null): string
    {
        $curl = curl_init($this->url . $path);
        curl_setopt_array($curl, [
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => ["Authorization: Bearer $this->apiKey", 'Content-Type: application/json'],
            CURLOPT_RETURNTRANSFER => true,
        ] + ($body === null ? [] : [CURLOPT_POSTFIELDS => json_encode($body)]));
        $reply = curl_exec($curl);
        if (curl_getinfo($curl, CURLINFO_RESPONSE_CODE) >= 300 || $reply === false) {
            throw new RuntimeException("$method $path: $reply" . curl_error($curl));
        }
        return $reply;
    }

    private function path(string $order): string
    {
        return '/_mock/payments/' . rawurlencode($order);
    }
}
