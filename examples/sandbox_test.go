// The helper of docs/go.md: copy it to your package.
package shop

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
)

type object = map[string]any

// A sandbox is everything that belongs to one API key. Where it takes an order, a payment id will do.
type sandbox struct {
	t           *testing.T
	url, apiKey string
}

// An empty sandbox with a frozen clock. If the test fails, it prints what happened.
func newSandbox(t *testing.T) sandbox {
	t.Helper()
	name := make([]byte, 16)
	rand.Read(name)
	mock := sandbox{t, os.Getenv("PAYMOCK_URL"), fmt.Sprintf("mk_test_%x", name)}
	if mock.url == "" {
		t.Fatal("run by: paymock exec -- go test ./...")
	}
	mock.call("PUT", "/_mock/clock", object{"speed": 0})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(mock.describe())
		}
		mock.call("POST", "/_mock/reset", nil)
	})
	return mock
}

func (mock sandbox) advance(seconds float64) {
	mock.t.Helper()
	mock.call("POST", "/_mock/clock/advance", object{"seconds": seconds})
}

// One payment, to a status, to the "next" change or to the "end".
func (mock sandbox) advanceTo(order, to string) object {
	mock.t.Helper()
	return mock.call("POST", mock.path(order)+"/advance", object{"to": to})
}

// The scenario of the next payment. Options: "order_id", "order_id_prefix", "metadata", "times"; nil times: until a reset.
func (mock sandbox) next(scenario string, options ...object) {
	mock.t.Helper()
	mock.call("POST", "/_mock/next", mock.with(options, "scenario", scenario))
}

// Options: "operation", "order_id", "order_id_prefix", "skip", "times"; nil times: always.
func (mock sandbox) fault(fault string, options ...object) object {
	mock.t.Helper()
	return mock.call("POST", "/_mock/faults", mock.with(options, "fault", fault))
}

func (mock sandbox) deposit(order, amount string) object {
	mock.t.Helper()
	return mock.call("POST", mock.path(order)+"/deposits", object{"amount": amount})
}

func (mock sandbox) payment(order string) object {
	mock.t.Helper()
	return mock.call("GET", mock.path(order), nil)["payment"].(object)
}

// The newest 200 payments.
func (mock sandbox) payments() []any {
	mock.t.Helper()
	return mock.call("GET", "/_mock/payments?limit=200", nil)["data"].([]any)
}

func (mock sandbox) requests() []any {
	mock.t.Helper()
	return mock.call("GET", "/_mock/requests?limit=1000", nil)["data"].([]any)
}

// Until the payment, which need not exist yet, has the status; for seconds of real time, at most 60.
func (mock sandbox) waitFor(order, status string, seconds float64) object {
	mock.t.Helper()
	query := url.Values{"order_id": {order}, "status": {status}, "timeout": {fmt.Sprint(seconds)}}
	reply := mock.call("GET", "/_mock/wait?"+query.Encode(), nil)
	if reply["reached"] != true {
		mock.t.Fatal(reply["message"])
	}
	return reply["payment"].(object)
}

func (mock sandbox) describe() string {
	return mock.send("GET", "/_mock/story", nil)
}

// Any call of the control API.
func (mock sandbox) call(method, path string, body object) (reply object) {
	mock.t.Helper()
	json.Unmarshal([]byte(mock.send(method, path, body)), &reply)
	return reply
}

func (mock sandbox) send(method, path string, body object) string {
	mock.t.Helper()
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body)
	}
	request, err := http.NewRequest(method, mock.url+path, bytes.NewReader(content))
	if err != nil {
		mock.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+mock.apiKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		mock.t.Fatal(err)
	}
	defer response.Body.Close()
	reply, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		mock.t.Fatalf("%s %s: %s %s", method, path, response.Status, reply)
	}
	return string(reply)
}

func (mock sandbox) path(order string) string {
	return "/_mock/payments/" + url.PathEscape(order)
}

func (mock sandbox) with(options []object, name, value string) object {
	body := object{name: value}
	for _, option := range options {
		for name, value := range option {
			body[name] = value
		}
	}
	return body
}
