// openapi-generator, go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"example.com/flow/control"
	"example.com/flow/service"
)

var background = context.Background()
var client = service.NewAPIClient(configuration())

func configuration() *service.Configuration {
	configuration := service.NewConfiguration()
	configuration.Servers = service.ServerConfigurations{{URL: os.Getenv("PAYMOCK_URL")}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("PAYMOCK_API_KEY"))
	return configuration
}

func controlConfiguration() *control.Configuration {
	configuration := control.NewConfiguration()
	configuration.Servers = control.ServerConfigurations{{URL: os.Getenv("PAYMOCK_URL")}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("PAYMOCK_API_KEY"))
	return configuration
}

func must[T any](reply T, _ *http.Response, err error) T {
	if err != nil {
		panic(err)
	}
	return reply
}

func order(id string, payWith string) service.CreatePayment {
	receive := service.NewReceiveRequest(
		"bsc", "USDT", "1000000000000000000", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	settlement := service.NewSettlementRequest(service.SAME_CHAIN_MERCHANT_PAYOUT)
	order := service.NewCreatePayment(
		id, *receive, *settlement, []service.PayWithRequest{*service.NewPayWithRequest("bsc", payWith)})
	order.SetExpiresAt(time.Date(2099, 1, 31, 12, 30, 0, 0, time.UTC))
	order.SetMetadata(map[string]interface{}{
		"a": 1, "b": map[string]interface{}{"c": []interface{}{1, "two", nil}},
	})
	return *order
}

func create(key string, body service.CreatePayment) service.ApiCreatePaymentRequest {
	return client.PaymentsAPI.CreatePayment(background).IdempotencyKey(key).CreatePayment(body)
}

func refused(request service.ApiCreatePaymentRequest) []interface{} {
	_, response, err := request.Execute()
	var refusal *service.GenericOpenAPIError
	if !errors.As(err, &refusal) {
		panic("not refused")
	}
	envelope := refusal.Model().(service.ErrorEnvelope)
	seen := []interface{}{response.StatusCode, envelope.Error.Code}
	for _, problem := range envelope.Error.Details {
		seen = append(seen, problem.Field)
	}
	return seen
}

func main() {
	defaults := []string{service.NewConfiguration().Servers[0].URL, control.NewConfiguration().Servers[0].URL}
	controls := control.NewAPIClient(controlConfiguration())

	frozen := control.NewSetClock()
	frozen.SetSpeed(0)
	must(controls.TimeAPI.SetClock(background).SetClock(*frozen).Execute())
	chains := []string{}
	for _, chain := range must(client.ChainsAndAssetsAPI.ListChains(background).Execute()).Data {
		chains = append(chains, chain.Id)
	}
	assets := []string{}
	for _, asset := range must(client.ChainsAndAssetsAPI.ListAssets(background, "bsc").Execute()).Data {
		assets = append(assets, asset.GetSymbol())
	}

	request := create("order-1001-payment", order("order-1001", "USDT")).XMockScenario(service.SCENARIO_SETTLEMENT_FAILED)
	created := must(request.Execute())
	replay, replayed, err := request.Execute()
	must(replay, replayed, err)
	conflict := refused(create("order-1001-payment", order("order-1002", "USDT")))
	invalid := refused(create("order-1002-payment", order("order-1002", "BNB")))

	payment := created
	statuses := []service.PaymentStatus{payment.Status}
	for payment.Status != service.FAILED {
		must(controls.TimeAPI.AdvanceClock(background).Advance(*control.NewAdvance(5)).Execute())
		payment = must(client.PaymentsAPI.GetPayment(background, created.Id).Execute())
		if payment.Status != statuses[len(statuses)-1] {
			statuses = append(statuses, payment.Status)
		}
	}
	attempts := []interface{}{}
	for _, attempt := range must(client.PaymentsAPI.ListAttempts(background, created.Id).Execute()).Data {
		deposits := []service.DepositStatus{}
		for _, deposit := range attempt.Deposits {
			deposits = append(deposits, deposit.Status)
		}
		attempts = append(attempts, []interface{}{attempt.Status, deposits})
	}

	wanted := service.NewCreateWebhookEndpoint("https://merchant.example/hooks")
	wanted.SetEvents([]service.EventName{service.PAYMENT_COMPLETED, service.PAYMENT_FAILED})
	endpoint := must(
		client.WebhooksAPI.CreateWebhookEndpoint(background).IdempotencyKey("endpoint-1").CreateWebhookEndpoint(*wanted).Execute())
	endpoints := []bool{}
	for _, one := range must(client.WebhooksAPI.ListWebhookEndpoints(background).Execute()).Data {
		endpoints = append(endpoints, one.Id == endpoint.Id)
	}

	scenario := control.NewSetNext()
	scenario.SetScenario(control.SCENARIO_NO_PAYMENT_EXPIRED)
	must(controls.OverridesAndFaultsAPI.SetNext(background).SetNext(*scenario).Execute())
	overridden := must(create("order-1003-payment", order("order-1003", "USDT")).Execute())
	detail := must(controls.PaymentsAPI.GetPaymentDetail(background, overridden.Id).Execute())
	fault := control.NewAddFault("status=429")
	must(controls.OverridesAndFaultsAPI.AddFault(background).AddFault(*fault).Execute())
	injected := refused(create("order-1004-payment", order("order-1004", "USDT")))

	seen, err := json.Marshal(map[string]interface{}{
		"defaults":   defaults,
		"chains":     chains,
		"assets":     assets,
		"created":    []interface{}{created.Status, created.Attempts[0].Instructions.Amounts.Due, created.Metadata},
		"pays_to":    created.Attempts[0].Instructions.GetInvoiceAddress()[:2],
		"expires_at": created.GetExpiresAt().Unix(),
		"replay":     []interface{}{replayed.Header.Get("Idempotent-Replayed"), replay.Id == created.Id},
		"conflict":   conflict,
		"invalid":    invalid,
		"statuses":   statuses,
		"took":       payment.GetUpdatedAt().Sub(payment.GetCreatedAt()).Seconds(),
		"attempts":   attempts,
		"endpoint":   []interface{}{endpoint.Url, endpoint.Events, endpoint.GetSecret()[:6]},
		"endpoints":  endpoints,
		"overridden": detail.Scenario,
		"injected":   injected,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(seen))
}
