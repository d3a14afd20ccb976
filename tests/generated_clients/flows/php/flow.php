<?php
// openapi-generator, php.
declare(strict_types=1);

require 'classes.php';

use service\Model;

$defaults = [(new service\Configuration())->getHost(), (new control\Configuration())->getHost()];
$http = new GuzzleHttp\Client();
$configuration = (new service\Configuration())
    ->setHost(getenv('PAYMOCK_URL'))->setAccessToken(getenv('PAYMOCK_API_KEY'));
$payments = new service\Api\PaymentsApi($http, $configuration);
$catalog = new service\Api\ChainsAndAssetsApi($http, $configuration);
$webhooks = new service\Api\WebhooksApi($http, $configuration);
$controlConfiguration = (new control\Configuration())
    ->setHost(getenv('PAYMOCK_URL'))->setAccessToken(getenv('PAYMOCK_API_KEY'));
$time = new control\Api\TimeApi($http, $controlConfiguration);
$overrides = new control\Api\OverridesAndFaultsApi($http, $controlConfiguration);
$inspection = new control\Api\PaymentsApi($http, $controlConfiguration);

function order(string $id, string $payWith = 'USDT'): Model\CreatePayment
{
    return (new Model\CreatePayment())
        ->setOrderId($id)
        ->setReceive((new Model\ReceiveRequest())
            ->setChain('bsc')
            ->setAsset('USDT')
            ->setAmount('1000000000000000000')
            ->setAddress('0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'))
        ->setSettlement((new Model\SettlementRequest())->setMode(Model\SettlementMode::SAME_CHAIN_MERCHANT_PAYOUT))
        ->setPayWith([(new Model\PayWithRequest())->setChain('bsc')->setAsset($payWith)])
        ->setExpiresAt(new DateTime('2099-01-31T12:30:00Z'))
        ->setMetadata(['a' => 1, 'b' => ['c' => [1, 'two', null]]]);
}

function refused(string $key, Model\CreatePayment $order): array
{
    global $payments;
    try {
        $payments->createPayment($key, $order);
    } catch (service\ApiException $refusal) {
        $envelope = $refusal->getResponseObject();
        assert($envelope instanceof Model\ErrorEnvelope);
        $fields = array_map(
            fn(Model\Problem $problem) => $problem->getField(),
            $envelope->getError()->getDetails() ?? [],
        );
        return [$refusal->getCode(), $envelope->getError()->getCode(), ...$fields];
    }
    throw new LogicException('not refused');
}

$time->setClock((new control\Model\SetClock())->setSpeed(0));
$chains = $catalog->listChains()->getData();
$assets = $catalog->listAssets('bsc')->getData();

$scenario = Model\Scenario::SCENARIO_SETTLEMENT_FAILED;
$created = $payments->createPayment('order-1001-payment', order('order-1001'), $scenario);
assert($created instanceof Model\Payment);
[$replay, , $headers] = $payments->createPaymentWithHttpInfo('order-1001-payment', order('order-1001'), $scenario);
$conflict = refused('order-1001-payment', order('order-1002'));
$invalid = refused('order-1002-payment', order('order-1002', 'BNB'));

$payment = $created;
$statuses = [$payment->getStatus()];
while ($payment->getStatus() !== Model\PaymentStatus::FAILED) {
    $time->advanceClock((new control\Model\Advance())->setSeconds(5));
    $payment = $payments->getPayment($created->getId());
    assert($payment instanceof Model\Payment);
    if ($payment->getStatus() !== end($statuses)) {
        $statuses[] = $payment->getStatus();
    }
}
$attempts = $payments->listAttempts($created->getId())->getData();

$endpoint = $webhooks->createWebhookEndpoint('endpoint-1', (new Model\CreateWebhookEndpoint())
    ->setUrl('https://merchant.example/hooks')
    ->setEvents([Model\EventName::PAYMENT_COMPLETED, Model\EventName::PAYMENT_FAILED]));
$endpoints = $webhooks->listWebhookEndpoints()->getData();

$overrides->setNext((new control\Model\SetNext())->setScenario(control\Model\Scenario::SCENARIO_NO_PAYMENT_EXPIRED));
$overridden = $payments->createPayment('order-1003-payment', order('order-1003'));
$detail = $inspection->getPaymentDetail($overridden->getId());
$overrides->addFault((new control\Model\AddFault())->setFault('status=429'));
$injected = refused('order-1004-payment', order('order-1004'));

echo json_encode([
    'defaults' => $defaults,
    'chains' => array_map(fn(Model\Chain $chain) => $chain->getId(), $chains),
    'assets' => array_map(fn(Model\Asset $asset) => $asset->getSymbol(), $assets),
    'pays_to' => substr($created->getAttempts()[0]->getInstructions()->getInvoiceAddress(), 0, 2),
    'created' => [
        $created->getStatus(),
        $created->getAttempts()[0]->getInstructions()->getAmounts()->getDue(),
        $created->getMetadata(),
    ],
    'expires_at' => $created->getExpiresAt()->getTimestamp(),
    'replay' => [array_change_key_case($headers)['idempotent-replayed'][0], $replay->getId() === $created->getId()],
    'conflict' => $conflict,
    'invalid' => $invalid,
    'statuses' => $statuses,
    'took' => $payment->getUpdatedAt()->getTimestamp() - $payment->getCreatedAt()->getTimestamp(),
    'attempts' => array_map(fn(Model\Attempt $attempt) => [
        $attempt->getStatus(),
        array_map(fn(Model\Deposit $deposit) => $deposit->getStatus(), $attempt->getDeposits()),
    ], $attempts),
    'endpoint' => [$endpoint->getUrl(), $endpoint->getEvents(), substr($endpoint->getSecret(), 0, 6)],
    'endpoints' => array_map(fn(Model\WebhookEndpoint $one) => $one->getId() === $endpoint->getId(), $endpoints),
    'overridden' => $detail->getScenario(),
    'injected' => $injected,
]);
