// The helper of docs/go.md.
package shop

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

type sandbox struct {
	t           *testing.T
	url, apiKey string
}

type object = map[string]any

func newSandbox(t *testing.T) sandbox {
	name := make([]byte, 16)
	rand.Read(name)
	mock := sandbox{t, os.Getenv("PAYMOCK_URL"), fmt.Sprintf("mk_test_%x", name)}
	mock.call("PUT", "/_mock/clock", `{"speed": 0}`)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(mock.send("GET", "/_mock/story", ""))
		}
		mock.call("POST", "/_mock/reset", "")
	})
	return mock
}

func (mock sandbox) call(method, path, body string) (reply object) {
	json.Unmarshal([]byte(mock.send(method, path, body)), &reply)
	return reply
}

func (mock sandbox) send(method, path, body string) string {
	request, _ := http.NewRequest(method, mock.url+path, strings.NewReader(body))
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
