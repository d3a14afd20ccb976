<?php // The helper of docs/php.md.

abstract class SandboxTestCase extends PHPUnit\Framework\TestCase
{
    protected string $url;
    protected string $apiKey;

    protected function setUp(): void
    {
        $this->url = getenv('PAYMOCK_URL');
        $this->apiKey = 'mk_test_' . bin2hex(random_bytes(16));
        $this->mock('PUT', '/_mock/clock', ['speed' => 0]);
    }

    protected function onNotSuccessfulTest(Throwable $problem): never
    {
        try {
            fwrite(STDERR, "\n{$this->toString()}:\n" . $this->send('GET', '/_mock/story'));
        } finally { // also when the server is gone
            throw $problem;
        }
    }

    protected function mock(string $method, string $path, ?array $body = null): ?array
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
}
