package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCoolingAlertArrives is the webhook that Alertmanager is told to call.
func TestCoolingAlertArrives(t *testing.T) {
	address := running(t, "STACK_WEBHOOK")
	wanted := map[string]bool{}
	for name, expr := range rules(t) {
		if strings.Contains(expr, "signalbox_cooling_remaining") {
			wanted[name] = true
		}
	}
	if len(wanted) == 0 {
		t.Fatal("no alert is about cooling")
	}
	type alert struct {
		Status              string
		Labels, Annotations map[string]string
	}
	came := make(chan alert, 100)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct{ Alerts []alert }
		if json.NewDecoder(r.Body).Decode(&message) != nil {
			return
		}
		for _, a := range message.Alerts {
			select {
			case came <- a:
			default:
			}
		}
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer server.Close()
	seen := map[string]bool{}
	late := time.After(patience)
	for {
		select {
		case a := <-came:
			seen[a.Labels["alertname"]] = true
			if a.Status == "firing" && wanted[a.Labels["alertname"]] {
				t.Logf("came: %s", fmt.Sprint(a.Labels, a.Annotations))
				return
			}
		case <-late:
			t.Fatalf("none of %v came, only %v", slices.Sorted(maps.Keys(wanted)), slices.Sorted(maps.Keys(seen)))
		}
	}
}
